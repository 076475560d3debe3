"""What this machine has: torch, whose libraries the programs of the kit use, and the NVIDIA driver."""
import ctypes
import glob
import importlib.util
import os
import re

TORCH = "2.11"  # the programs are built with it, and LibTorch's interface changes with every version
CUDA = 13  # least version of the driver


def torch_folder():
    """The folder of the installed torch package, "" without one. torch itself is not imported: a broken one must not end this program."""
    spec = importlib.util.find_spec("torch")
    places = list(spec.submodule_search_locations or []) if spec else []
    return places[0] if places else ""


def torch_problem():
    """Why the programs can't start with this Python's torch, "" where they can."""
    folder = torch_folder()
    if not folder:
        return f"this python3 has no torch; install torch {TORCH}, or name another Python: PYTHON=/path/to/python3 ./run.sh"
    try:
        with open(os.path.join(folder, "version.py")) as file:
            version = re.search(r"__version__ = '([^']+)'", file.read())
    except OSError as error:
        return f"the torch in {folder} says no version ({error.strerror}); install torch {TORCH} again"
    version = version.group(1) if version else "unknown"
    if not version.startswith(TORCH + "."):
        return f"torch is {version} and the kit is built with {TORCH}; install torch {TORCH}"
    return ""


def library_folders():
    """Folders of LibTorch's libraries and of the NVIDIA packages that it depends on."""
    folders = [os.path.join(torch_folder(), "lib")]
    nvidia = importlib.util.find_spec("nvidia")
    for place in list(nvidia.submodule_search_locations or []) if nvidia else []:
        folders += sorted(glob.glob(os.path.join(place, "*", "lib")))
    return folders


def environment():
    """What the programs are started with: LibTorch's libraries are found, and nothing of mptune's is taken from elsewhere."""
    values = {name: value for name, value in os.environ.items() if not name.startswith("MPTUNE_")}
    before = [folder for folder in values.get("LD_LIBRARY_PATH", "").split(":") if folder]
    values["LD_LIBRARY_PATH"] = ":".join(library_folders() + before)
    return values


def driver_problem():
    """Why no GPU can be used, "" where one can."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no NVIDIA driver"
    status = driver.cuInit(0)
    if status != 0:
        return f"the NVIDIA driver can't be used (error {status} of cuInit)"
    version, gpus = ctypes.c_int(), ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    driver.cuDeviceGetCount(ctypes.byref(gpus))
    if gpus.value == 0:
        return "the NVIDIA driver has no GPU for this process"
    if version.value < CUDA * 1000:
        return f"the NVIDIA driver is of CUDA {version.value // 1000}.{version.value % 1000 // 10}, needed is {CUDA}.0"
    return ""
