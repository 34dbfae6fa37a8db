"""Pages of the reference begin with what a class is for and an example.

The signature, a line for every parameter, is folded below them: the parameters have
their defaults in the list that follows.
"""

from docutils import nodes
from sphinx import addnodes

# Shorter signatures are read at once.
_MOST = 3


def fold(app, doctree):
    """Fold the long signature of a page, and put its example before the parameters."""
    if not app.env.docname.startswith("api/generated/"):
        return
    described = next(doctree.findall(addnodes.desc), None)
    if described is None:
        return
    signature, content = described[0], described[-1]
    first = next(
        (k for k, node in enumerate(content) if not isinstance(node, nodes.paragraph)),
        len(content),
    )
    content[first:first] = [*_examples(content), *_folded(signature)]


def _examples(content):
    """The nodes of the section of examples, taken out."""
    found, inside = [], False
    for node in list(content):
        if isinstance(node, nodes.rubric):
            inside = node.astext() == "Examples"
        if isinstance(node, addnodes.desc):
            inside = False
        if inside:
            content.remove(node)
            found.append(node)
    return found[1:]


def _folded(signature):
    """The signature as a block that opens; a short one stays where it is."""
    listed = next(signature.findall(addnodes.desc_parameterlist), None)
    if listed is None or len(listed) <= _MOST:
        return []
    name = next(signature.findall(addnodes.desc_name)).astext()
    lines = "".join(f"    {each.astext()},\n" for each in listed)
    listed.children = []
    listed.append(addnodes.desc_parameter("", "…"))
    listed["multi_line_parameter_list"] = False
    text = f"{name}(\n{lines})"
    return [
        nodes.raw("", "<details><summary>Signature</summary>", format="html"),
        nodes.literal_block(text, text, language="python"),
        nodes.raw("", "</details>", format="html"),
    ]
