"""Tables of the pages about benchmarks, read from files of results when they are built.

``.. quoted:: groups`` with the options ``:columns: task=data; CPU s; KL / se=ratio`` (a
column and its heading, or a quotient), ``:tables:`` (titles, or parts of them, whose
rows follow each other; all by default), ``:where: kind=orbits`` (of the rows) and
``:pivot: method: loss`` (a column for each value of the first, with the second in it).
The column ``table`` is the title that a row stands under.
"""

from quoted import content, meets


def shown(value):
    """A cell: three digits that mean something."""
    if value is None or value == "" or value != value:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        style = ",.0f" if abs(value) >= 1000 else ".4g" if abs(value) >= 10 else ".3g"
        return "0" if abs(value) < 1e-9 else format(value, style)
    return f"{value:,}" if isinstance(value, int) else str(value).replace("|", r"\|")


def rows_of(files, titles="", where=""):
    """Rows of the tables whose titles have one of the parts, in the order of these."""
    wanted = {part.strip(): 0 for part in titles.split(";")}
    found = []
    for file in files.replace(",", " ").split():
        tables = content(file)["tables"]
        for part in wanted:
            named = {t: rows for t, rows in tables.items() if t == part}
            named = named or {t: rows for t, rows in tables.items() if part in t}
            wanted[part] += len(named)
            found += [{"table": t, **row} for t, rows in named.items() for row in rows]
    if not all(wanted.values()):
        raise ValueError(f"tables of {files} that have these words: {wanted}")
    kept = [row for row in found if meets(row, where)]
    if not kept:
        raise ValueError(f"no row of {files} meets {where!r}")
    return kept


def pivoted(rows, pivot, keys):
    """A row for all that agree in the keys, with a column for each value."""
    name, value = (part.strip() for part in pivot.split(":"))
    made = {}
    for row in rows:
        line = made.setdefault(
            tuple(row[key] for key in keys), {k: row[k] for k in keys}
        )
        if str(row[name]) in line:
            raise ValueError(f"two rows have {name}={row[name]} beside {line}")
        line[str(row[name])] = row[value]
    return list(made.values())


def cell(row, column):
    """A value, or the quotient of two."""
    if column not in row and " / " in column:
        above, below = (row[part] for part in column.split(" / "))
        return above / below
    return row.get(column)


def quoted_table(files, columns, tables="", where="", pivot=""):
    """Headings and rows of text; a KeyError or ValueError says what is missing."""
    rows = rows_of(files, tables, where)
    pairs = [one.strip().split("=", 1) for one in columns.split(";")]
    if pivot:
        keys = [pair[0] for pair in pairs]
        rows = pivoted(rows, pivot, keys)
        names = dict.fromkeys(name for row in rows for name in row)
        pairs += [[name] for name in names if name not in keys]
    unknown = [one for one, *_ in pairs if all(cell(row, one) is None for row in rows)]
    if unknown:
        raise KeyError(f"{files} has no {unknown}")
    headings = [pair[-1] for pair in pairs]
    return [headings, *([shown(cell(row, one)) for one, *_ in pairs] for row in rows)]


def add_tables(app):
    """The directive; what is missing is an error of the build."""
    # Tests read tables without docutils.
    from docutils.parsers.rst import Directive, directives

    class Quoted(Directive):
        required_arguments, final_argument_whitespace = 1, True
        options = ("columns", "tables", "where", "pivot")
        option_spec = dict.fromkeys(options, directives.unchanged)

        def run(self):
            try:
                table = quoted_table(self.arguments[0], **self.options)
            except (KeyError, ValueError, OSError) as problem:
                raise self.error(f"No table: {problem!r}") from problem
            lines = [".. list-table::", "   :header-rows: 1", ""]
            for row in table:
                marks = ["* -", *["  -"] * (len(row) - 1)]
                pairs = zip(marks, row, strict=True)
                lines += [f"   {mark} {text}" for mark, text in pairs]
            files = self.arguments[0].replace(",", " ").split()
            said = ", ".join(f":results:`{file}`" for file in files)
            lines += ["", f"{said}.", ""]
            self.state_machine.insert_input(lines, "quoted")
            return []

    app.add_directive("quoted", Quoted)
