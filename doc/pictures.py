"""The gallery's pictures say in words what is on their axes."""

import re

import matplotlib.pyplot as plt
from sphinx_gallery.scrapers import matplotlib_scraper


def scraper(block, block_vars, gallery_conf, **settings):
    """As sphinx-gallery's, whose alternative texts are the names of the scripts."""
    texts = iter([_in_words(plt.figure(number)) for number in plt.get_fignums()])
    found = matplotlib_scraper(block, block_vars, gallery_conf, **settings)
    return re.sub(r"(?<=:alt: ).*", lambda name: next(texts) or name[0], found)


def _in_words(figure):
    """Titles, labels of the axes and the legend of a figure, once each."""
    shared = (figure.get_suptitle(), figure.get_supylabel(), figure.get_supxlabel())
    said = [text for text in shared if text]
    for ax in figure.axes:
        axes = " by ".join(filter(None, (ax.get_ylabel(), ax.get_xlabel())))
        said.append(": ".join(filter(None, (ax.get_title(), axes))))
    legends = [*figure.legends, *(ax.get_legend() for ax in figure.axes)]
    keys = [key.get_text() for one in legends if one for key in one.get_texts()]
    if keys:
        said.append("shown are " + ", ".join(dict.fromkeys(keys)))
    return " ".join("; ".join(dict.fromkeys(filter(None, said))).split())
