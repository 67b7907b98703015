"""The notebooks of examples/notebooks run from top to bottom and draw pictures. They are committed with the outputs of a run, to be
read without running them.

    python tests/python/test_notebooks.py
    TOPOMASK_NOTEBOOKS=examples/notebooks python tests/python/test_notebooks.py    # writes them as they ran, after a change to one

Exits with 77, which ctest takes for skipped, where nbclient, ipykernel or matplotlib is not installed. TOPOMASK_ROADS names a road
network, that of ../shared where it is there.
"""

import base64
import importlib.util
import io
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT = 300_000  # bytes of a notebook


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def kinds(notebook):
    """What each cell of code put out: streams, values, pictures."""
    return [[(output.output_type, sorted(output.get("data", {}))) for output in cell.outputs] for cell in code_cells(notebook)]


def executed(path):
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources, record_timing=False).execute()
    for cell in code_cells(notebook):  # lines that one cell prints may come in several pieces
        streams = [output for output in cell.outputs if output.output_type == "stream" and output.name == "stdout"]
        for later in streams[1:]:
            streams[0].text += later.text
            cell.outputs.remove(later)
    return notebook


def smaller(picture):
    """A PNG in base64 with at most 256 colours, on white: less than half of the size."""
    from PIL import Image

    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGBA")
    paper = Image.new("RGBA", image.size, "white")
    paper.alpha_composite(image)
    out = io.BytesIO()
    paper.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return base64.b64encode(out.getvalue()).decode()


def write(notebook, path):
    import nbformat

    for cell in code_cells(notebook):
        for output in cell.outputs:
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = smaller(output.data["image/png"])
    notebook.metadata = {"kernelspec": notebook.metadata.kernelspec, "language_info": {"name": "python"}}  # not this machine's
    nbformat.write(notebook, path)


def problems(path, notebook, committed):
    """What is wrong with a notebook that ran, compared with the one that is committed, in sentences."""
    pictures = sum("image/png" in data for cell in kinds(notebook) for _, data in cell)
    if pictures < 3:
        yield f"{pictures} pictures, at least 3 are expected"
    if kinds(committed) != kinds(notebook):
        yield f"the committed outputs are of other kinds than those of this run; TOPOMASK_NOTEBOOKS={path.parent} rewrites them"
    if path.stat().st_size > LIMIT:
        yield f"{path.stat().st_size} bytes, at most {LIMIT} are allowed"


def main():
    import nbformat

    failed = False
    notebooks = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
    for path in notebooks:
        notebook = executed(path)
        if folder := os.environ.get("TOPOMASK_NOTEBOOKS"):
            write(notebook, pathlib.Path(folder) / path.name)
        found = list(problems(path, notebook, nbformat.read(path, as_version=4)))
        print(f"{path.name}: {'; '.join(found) or 'as committed'}", flush=True)
        failed |= bool(found)
    return failed or len(notebooks) != 2


if __name__ == "__main__":
    missing = [name for name in ("nbclient", "nbformat", "ipykernel", "matplotlib") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: {', '.join(missing)} is not installed", file=sys.stderr)
        sys.exit(77)
    roads = ROOT.parent / "shared" / "data" / "graphs" / "roads-12-cities.txt.gz"
    os.environ.setdefault("TOPOMASK_ROADS", str(roads))
    os.environ["JUPYTER_PLATFORM_DIRS"] = "1"
    sys.exit(main())
