"""The notebooks of examples/notebooks run from top to bottom and draw pictures.

Exits with 77, which ctest takes for skipped, where nbclient, ipykernel or matplotlib is not installed. TOPOMASK_NOTEBOOKS names a
folder that the notebooks are written to as they ran; TOPOMASK_ROADS a road network, that of ../shared where it is there.
"""

import importlib.util
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(path, out):
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    pictures = sum("image/png" in output.get("data", {}) for output in outputs)
    if out:
        nbformat.write(notebook, pathlib.Path(out) / path.name)
    print(f"{path.name}: {pictures} pictures")
    return pictures >= 3


if __name__ == "__main__":
    missing = [name for name in ("nbclient", "nbformat", "ipykernel", "matplotlib") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: {', '.join(missing)} is not installed", file=sys.stderr)
        sys.exit(77)
    roads = ROOT.parent / "shared" / "data" / "graphs" / "roads-12-cities.txt.gz"
    os.environ.setdefault("TOPOMASK_ROADS", str(roads))
    os.environ["JUPYTER_PLATFORM_DIRS"] = "1"
    notebooks = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
    sys.exit(not (len(notebooks) == 2 and all([run(path, os.environ.get("TOPOMASK_NOTEBOOKS")) for path in notebooks])))
