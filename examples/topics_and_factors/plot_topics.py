"""
Topics of documents
===================

From texts to topics: which words go together, which topics a document is about, and how
well unseen halves of documents are predicted. The documents are made up here, from the
words of six subjects and words that any text has; with newspaper articles of your own,
a list of texts in the place of ``texts``, nothing else changes.
"""

# %%
# Documents
# ---------
# Each is about one or two subjects. The fits never see the names of these.

# sphinx_gallery_thumbnail_number = 3

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

from skboost import SVILatentDirichletAllocation

plt.style.use("skboost.inspection.figures")

SUBJECTS = {
    "law": "court judge trial lawyer jury appeal law case verdict prison",
    "sport": "team game season coach player score win league match goal",
    "money": "market stock bank price share trade dollar profit rate investor",
    "health": "doctor patient drug hospital disease study treatment cancer risk test",
    "stage": "film actor music theatre play director show song audience dance",
    "power": "election vote party senate campaign leader bill poll governor law",
}
COMMON = "year people time day week city work group part home call million old week"

rng = np.random.default_rng(0)
words = [subject.split() for subject in SUBJECTS.values()]
popularity = [rng.dirichlet(np.full(10, 1.0)) for _ in words]
common = COMMON.split()


def article(shares, n_words):
    """A text: nearly half of its words are common to all."""
    found = list(rng.choice(common, int(0.4 * n_words)))
    for subject in rng.choice(6, n_words - len(found), p=shares):
        found.append(rng.choice(words[subject], p=popularity[subject]))
    return " ".join(rng.permutation(found))


shares = rng.dirichlet(np.full(6, 0.15), 1500)
texts = [article(share, int(rng.integers(30, 120))) for share in shares]
print(texts[0][:160], "…")

# %%
# Topics
# ------
# Batches of 300 documents, ten passes; then the fit goes on by coordinate ascent with
# all documents, under which the bound never falls. With batches it is estimated from
# 250 documents.

vectorizer = CountVectorizer()
X = vectorizer.fit_transform(texts[:1200])
held_out = vectorizer.transform(texts[1200:])

lda = SVILatentDirichletAllocation(
    n_components=7,
    batch_size=300,
    max_iter=10,
    warm_start=True,
    random_state=0,
).fit(X)
lda.set_params(batch_size=None, max_iter=30).fit(X)
names = vectorizer.get_feature_names_out()
for top, coherence in zip(lda.top_words(names, 7), lda.coherence(X), strict=True):
    print(f"{coherence:5.2f}  {' '.join(top)}")

# %%
# The first column is how the ten top words of a topic go together in documents
# (normalised pointwise mutual information). One topic took the words that all
# documents share: they are as likely beside one word as beside another.

figure, axes = plt.subplots(2, 4, figsize=(8.5, 5), sharex=True)
for axis, row in zip(axes.flat, lda.components_, strict=False):
    order = np.argsort(row)[-8:]
    axis.barh(np.array(names)[order], row[order] / row.sum())
axes.flat[7].remove()
figure.supxlabel("probability of a word in the topic", fontsize="medium")

# %%
# The bound over the passes; the line is where batches end and coordinate ascent begins.

figure, ax = plt.subplots(figsize=(5.5, 3.2))
ax.plot(np.arange(1, lda.n_iter_ + 1), lda.elbo_path_)
ax.axvline(10, color="0.7", linestyle="--")
ax.set(xlabel="pass over the documents", ylabel="ELBO (nats)")
ax.xaxis.get_major_locator().set_params(integer=True)
plt.show()

# %%
# What a document is about
# ------------------------

found = lda.transform(held_out)
for text, share in zip(texts[1200:1203], found, strict=False):
    about = ", ".join(
        f"{share[k]:.0%} {'/'.join(lda.top_words(names, 2)[k])}"
        for k in np.argsort(-share)[:3]
    )
    print(f"{text[:60]} …\n   {about}")

# %%
# How many topics?
# ----------------
# Perplexity of one half of each held-out document, given the other half: lower is
# better, and it does not go down for ever as topics are added. The bound agrees here,
# and needs no held-out documents (`EvidenceSearch`).

sizes, perplexities = [2, 4, 7, 12, 25], []
for n_components in sizes:
    model = SVILatentDirichletAllocation(n_components, max_iter=40, random_state=0)
    perplexity = model.fit(X).document_completion_perplexity(held_out, random_state=0)
    perplexities.append(perplexity)
    print(f"{n_components:3d} topics: {perplexity:.2f}, ELBO {model.elbo_:.0f} nats")

figure, ax = plt.subplots(figsize=(5.5, 3.4))
ax.plot(sizes, perplexities, "o-")
ax.set(xlabel="topics", ylabel="perplexity of held-out words", xticks=sizes)
plt.show()
