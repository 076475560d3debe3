# Finds LibTorch in a torch wheel: MPTUNE_TORCH_ROOT, else an installed package of version MPTUNE_TORCH_PIN, else that version, installed by pip
# into MPTUNE_WHEELS. Not by find_package(Torch), which needs nvcc and a matching toolkit, and runs a probe (pytorch#73427).
set(MPTUNE_TORCH_PIN 2.11.0)
set(MPTUNE_TORCH_LEAST 2.6)
set(MPTUNE_NVTX_PIN 13.0)
# Shared by all build folders of this checkout, so that debug and release download it once.
set(MPTUNE_WHEELS "${CMAKE_SOURCE_DIR}/build/python")

# Reads a value of the package's version.py, such as __version__ or cuda, as digits and dots.
function(mptune_torch_states name root result)
  set(digits "")
  if(EXISTS "${root}/version.py")
    file(STRINGS "${root}/version.py" line REGEX "^${name}")
    string(REGEX MATCH "[0-9]+(\\.[0-9]+)+" digits "${line}")
  endif()
  set(${result} "${digits}" PARENT_SCOPE)
endfunction()

function(mptune_pip_install folder)
  if(EXISTS "${folder}/.complete")
    return()
  endif()
  list(JOIN ARGN " " packages)
  message(STATUS "Installing ${packages} into ${folder}")
  find_program(MPTUNE_PIP_PYTHON NAMES python3 REQUIRED)
  execute_process(COMMAND ${MPTUNE_PIP_PYTHON} -m pip --version RESULT_VARIABLE no_pip OUTPUT_QUIET ERROR_QUIET)
  if(no_pip)
    message(FATAL_ERROR "${MPTUNE_PIP_PYTHON} has no pip, which fetches ${packages}. Install python3-pip, or pip into this environment (${MPTUNE_PIP_PYTHON} -m ensurepip); -DMPTUNE_TORCH_ROOT=<folder of the torch package> names an installed torch.")
  endif()
  # A user's setting of --user does not go with --target.
  execute_process(COMMAND ${CMAKE_COMMAND} -E env PIP_USER=0
                          ${MPTUNE_PIP_PYTHON} -m pip install --quiet --no-deps --no-compile --disable-pip-version-check --upgrade
                          --root-user-action=ignore --target "${folder}" ${ARGN}
                  RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "pip could not install ${packages}: its message is above. Often the network or space in ${folder} is missing; -DMPTUNE_TORCH_ROOT=<folder of the torch package> names an installed torch.")
  endif()
  file(TOUCH "${folder}/.complete")
endfunction()

# A wheel is built with the Python that pip runs in.
if(SKBUILD)
  set(MPTUNE_PIP_PYTHON "${Python3_EXECUTABLE}")
endif()

# The folder of the torch package that Python finds, else empty. ARGN: options of Python.
function(mptune_installed_torch result)
  execute_process(COMMAND ${MPTUNE_PIP_PYTHON} ${ARGN} -c "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
                  OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(${result} "${folder}" PARENT_SCOPE)
endfunction()

if(NOT MPTUNE_TORCH_ROOT)
  find_program(MPTUNE_PIP_PYTHON NAMES python3 REQUIRED)
  mptune_installed_torch(installed)
  mptune_torch_states(__version__ "${installed}" installed_version)
  if(SKBUILD AND installed_version AND NOT installed_version VERSION_EQUAL MPTUNE_TORCH_PIN)
    message(FATAL_ERROR "torch ${installed_version} is installed, and the package mptune needs ${MPTUNE_TORCH_PIN}: pip install torch==${MPTUNE_TORCH_PIN}, or build in isolation (without --no-build-isolation).")
  endif()
  if(SKBUILD AND NOT installed)
    # pip hides the environment from an isolated build by PYTHONPATH, which -E ignores. Another version there is replaced by pip.
    mptune_installed_torch(installed -E)
    mptune_torch_states(__version__ "${installed}" installed_version)
  endif()
  if(installed_version VERSION_EQUAL MPTUNE_TORCH_PIN AND EXISTS "${installed}/include/torch/csrc/api/include/torch/torch.h")
    set(MPTUNE_TORCH_ROOT "${installed}")
  else()
    mptune_pip_install("${MPTUNE_WHEELS}/torch-${MPTUNE_TORCH_PIN}" torch==${MPTUNE_TORCH_PIN})
    set(MPTUNE_TORCH_ROOT "${MPTUNE_WHEELS}/torch-${MPTUNE_TORCH_PIN}/torch")
  endif()
endif()
mptune_torch_states(__version__ "${MPTUNE_TORCH_ROOT}" MPTUNE_TORCH_VERSION)
set(torch_config "${MPTUNE_TORCH_ROOT}/share/cmake/Torch/TorchConfig.cmake")
if(NOT MPTUNE_TORCH_VERSION OR MPTUNE_TORCH_VERSION VERSION_LESS MPTUNE_TORCH_LEAST OR NOT EXISTS "${torch_config}")
  message(FATAL_ERROR "No torch ${MPTUNE_TORCH_LEAST} or newer in MPTUNE_TORCH_ROOT=${MPTUNE_TORCH_ROOT}. Name the folder that holds version.py, or leave it empty to fetch ${MPTUNE_TORCH_PIN}.")
endif()
file(STRINGS "${torch_config}" old_abi REGEX "_GLIBCXX_USE_CXX11_ABI=0")
if(old_abi)
  message(FATAL_ERROR "The torch ${MPTUNE_TORCH_VERSION} in MPTUNE_TORCH_ROOT=${MPTUNE_TORCH_ROOT} was built with the C++ ABI from before C++11, which cannot be linked with the system's C++ libraries. Name a torch 2.7 or newer, or a 2.6 for CUDA 12.6 (2.6.0+cu126).")
endif()
message(STATUS "LibTorch ${MPTUNE_TORCH_VERSION} in ${MPTUNE_TORCH_ROOT}")

# Folders of libcupti and libcudart, empty unless both are there: in the NVIDIA packages below `packages`, else in a toolkit.
function(mptune_find_cuda major packages result)
  file(GLOB folders "${packages}/nvidia/*/lib")
  set(found "")
  foreach(name IN ITEMS cupti cudart)
    unset(library)
    find_library(library NAMES lib${name}.so.${major} NO_CACHE NO_DEFAULT_PATH
                 PATHS ${folders} /usr/local/cuda/lib64 /usr/local/cuda/extras/CUPTI/lib64)
    if(NOT library)
      set(${result} "" PARENT_SCOPE)
      return()
    endif()
    get_filename_component(folder "${library}" DIRECTORY)
    list(APPEND found "${folder}")
  endforeach()
  list(REMOVE_DUPLICATES found)
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

# libtorch_cpu of a CUDA wheel needs libcupti and libcudart of its CUDA; packages for CUDA 12 and older carry the major version in their names.
set(MPTUNE_CUDA_LIBRARY_DIRS "")
execute_process(COMMAND readelf -d "${MPTUNE_TORCH_ROOT}/lib/libtorch_cpu.so" OUTPUT_VARIABLE needed ERROR_QUIET)
if(needed MATCHES "libcupti\\.so\\.([0-9]+)")
  set(major ${CMAKE_MATCH_1})
  mptune_find_cuda(${major} "${MPTUNE_TORCH_ROOT}/.." MPTUNE_CUDA_LIBRARY_DIRS)
  if(NOT MPTUNE_CUDA_LIBRARY_DIRS)
    mptune_torch_states(cuda "${MPTUNE_TORCH_ROOT}" cuda)
    set(suffix "")
    if(major VERSION_LESS 13)
      set(suffix "-cu${major}")
    endif()
    mptune_pip_install("${MPTUNE_WHEELS}/cuda-${cuda}" nvidia-cuda-cupti${suffix}==${cuda}.* nvidia-cuda-runtime${suffix}==${cuda}.*)
    mptune_find_cuda(${major} "${MPTUNE_WHEELS}/cuda-${cuda}" MPTUNE_CUDA_LIBRARY_DIRS)
    if(NOT MPTUNE_CUDA_LIBRARY_DIRS)
      message(FATAL_ERROR "No libcupti.so.${major} and libcudart.so.${major} in ${MPTUNE_WHEELS}/cuda-${cuda}. Remove that folder and configure again.")
    endif()
  endif()
endif()

# NVTX 3 is headers only.
find_path(MPTUNE_NVTX_INCLUDE_DIR nvtx3/nvToolsExt.h PATHS /usr/local/cuda/include)
if(NOT MPTUNE_NVTX_INCLUDE_DIR)
  mptune_pip_install("${MPTUNE_WHEELS}/nvtx-${MPTUNE_NVTX_PIN}" nvidia-nvtx==${MPTUNE_NVTX_PIN}.*)
  find_path(MPTUNE_NVTX_INCLUDE_DIR nvtx3/nvToolsExt.h PATHS "${MPTUNE_WHEELS}/nvtx-${MPTUNE_NVTX_PIN}/nvidia/cu13/include" REQUIRED)
endif()
add_library(mptune_nvtx INTERFACE)
target_include_directories(mptune_nvtx SYSTEM INTERFACE "${MPTUNE_NVTX_INCLUDE_DIR}")

add_library(mptune_torch INTERFACE)
target_include_directories(mptune_torch SYSTEM INTERFACE "${MPTUNE_TORCH_ROOT}/include" "${MPTUNE_TORCH_ROOT}/include/torch/csrc/api/include")
target_link_libraries(mptune_torch INTERFACE "${MPTUNE_TORCH_ROOT}/lib/libtorch_cpu.so" "${MPTUNE_TORCH_ROOT}/lib/libc10.so")
# DT_RPATH, not DT_RUNPATH: it also serves the libraries that libtorch_cpu itself needs.
target_link_options(mptune_torch INTERFACE -Wl,--disable-new-dtags)
# LibTorch is always a release build. Without NDEBUG its headers would assert on a flag of RecordFunction that only debug builds set.
target_compile_definitions(mptune_torch INTERFACE NDEBUG)
# In a wheel, the programs look for torch and its CUDA libraries in the site-packages they are installed in: mptune/libexec/mptune/mptune-worker.
if(SKBUILD)
  set(CMAKE_INSTALL_RPATH torch/lib nvidia/cu13/lib nvidia/cuda_cupti/lib nvidia/cuda_runtime/lib)
  list(TRANSFORM CMAKE_INSTALL_RPATH PREPEND "$ORIGIN/../../../")
endif()
foreach(folder IN LISTS MPTUNE_CUDA_LIBRARY_DIRS ITEMS "${MPTUNE_TORCH_ROOT}/lib")
  if(NOT SKBUILD)
    target_link_options(mptune_torch INTERFACE "-Wl,-rpath,${folder}")
  endif()
  target_link_options(mptune_torch INTERFACE "-Wl,-rpath-link,${folder}")
endforeach()

# Tensors and autograd load in half the time that all of torch/torch.h takes, which few sources need. What is not shipped (tests, plug-ins,
# examples) is compiled lightly.
set(headers LIBRARIES mptune_torch HEADERS <ATen/ATen.h> <torch/types.h> <torch/csrc/autograd/function.h>)
mptune_precompiled(mptune_tensors ${headers})
mptune_precompiled(mptune_tensors_lightly LIGHTLY ${headers})

# mptune_use_torch(TARGET SCOPE [LIGHTLY])
function(mptune_use_torch target scope)
  target_link_libraries(${target} ${scope} mptune_torch)
  set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE 20)  # so that the largest are two jobs
  if("LIGHTLY" IN_LIST ARGN AND NOT MPTUNE_SANITIZE_THREADS)  # that preset compiles all lightly
    mptune_compile_lightly(${target})
    mptune_reuse_precompiled(${target} mptune_tensors_lightly)
  else()
    mptune_reuse_precompiled(${target} mptune_tensors)
  endif()
endfunction()
