# Installs the programs and the C++ target mptune::mptune, which find_package(mptune) provides.
include(CMakePackageConfigHelpers)

# Builds everything that an installation needs, without tests, benchmarks and examples.
add_custom_target(all_installed)
function(mptune_install)
  install(TARGETS ${ARGV})
  add_dependencies(all_installed ${ARGV0})
endfunction()

mptune_install(mptune RUNTIME)
# Manual pages and completion scripts (reports/cli/CMakeLists.txt).
install(DIRECTORY "${CMAKE_BINARY_DIR}/share/" DESTINATION "${CMAKE_INSTALL_DATADIR}" PATTERN options.json EXCLUDE)
install(DIRECTORY "${CMAKE_SOURCE_DIR}/reports/schemas" DESTINATION "${CMAKE_INSTALL_DATADIR}/mptune" FILES_MATCHING PATTERN "*.json")
install(FILES "${CMAKE_SOURCE_DIR}/python/export/mptune_plan.py" "${CMAKE_SOURCE_DIR}/python/export/mptune_export.py" DESTINATION "${CMAKE_INSTALL_DATADIR}/mptune/python")
if(MPTUNE_HAVE_CUPTI)
  mptune_install(mptune_injection LIBRARY DESTINATION "${CMAKE_INSTALL_LIBEXECDIR}/mptune")
endif()
if(MPTUNE_CORE_ONLY)
  return()
endif()

if(MPTUNE_HAVE_CUDA)
  mptune_install(mptune_cuda LIBRARY DESTINATION "${CMAKE_INSTALL_LIBEXECDIR}/mptune")
endif()

# The program looks for its worker in ../libexec/mptune. Its run-time path to LibTorch is in its link options and survives installation.
mptune_install(mptune-worker RUNTIME DESTINATION "${CMAKE_INSTALL_LIBEXECDIR}/mptune")

# <mptune/mptune.h> and <mptune/nn.h> include the headers of the modules.
set(MPTUNE_PUBLIC "${CMAKE_BINARY_DIR}/public")
set(MPTUNE_PUBLIC_HEADERS tuner/runtime/training/mptune.h profiler/model/nn/nn.h)
foreach(header IN LISTS MPTUNE_PUBLIC_HEADERS)
  get_filename_component(name "${header}" NAME)
  file(CONFIGURE OUTPUT "${MPTUNE_PUBLIC}/mptune/${name}" CONTENT "#pragma once\n#include \"${header}\"\n")
endforeach()

add_library(mptune_public INTERFACE)
add_library(mptune::mptune ALIAS mptune_public)
target_include_directories(mptune_public INTERFACE "${MPTUNE_PUBLIC}")
target_link_libraries(mptune_public INTERFACE mptune_training mptune_runtime mptune_loading mptune_planner_search)
# A plug-in is loaded into the worker, which has its own copy of mptune. So the plug-in hides its copy, and uses the worker's C++ library.
target_link_options(mptune_public INTERFACE $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,MODULE_LIBRARY>:-Wl,--exclude-libs,ALL>)
set_target_properties(mptune_public PROPERTIES COMPATIBLE_INTERFACE_BOOL MPTUNE_SHARED_RUNTIME INTERFACE_MPTUNE_SHARED_RUNTIME ON)

# Modules that `target` links, itself included.
function(mptune_modules_of target result)
  set(modules "")
  get_target_property(type ${target} TYPE)
  if(type STREQUAL STATIC_LIBRARY)
    list(APPEND modules ${target})
  endif()
  get_target_property(linked ${target} INTERFACE_LINK_LIBRARIES)
  foreach(other IN LISTS linked)
    if(TARGET ${other})
      mptune_modules_of(${other} more)
      list(APPEND modules ${more})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES modules)
  set(${result} "${modules}" PARENT_SCOPE)
endfunction()

# One archive instead of one per module, so that users link one library.
mptune_modules_of(mptune_public modules)
list(TRANSFORM modules REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
add_library(mptune_archive STATIC ${modules})
set_target_properties(mptune_archive PROPERTIES OUTPUT_NAME mptune LINKER_LANGUAGE CXX)
mptune_install(mptune_archive ARCHIVE)

# Runs at installation, not at configuration, so that a new #include needs no reconfiguration.
install(CODE "set(MPTUNE_SOURCE \"${CMAKE_SOURCE_DIR}\")
set(MPTUNE_PUBLIC \"${MPTUNE_PUBLIC}\")
set(MPTUNE_INCLUDE \"${CMAKE_INSTALL_INCLUDEDIR}\")
set(MPTUNE_PUBLIC_HEADERS \"${MPTUNE_PUBLIC_HEADERS}\")")
install(SCRIPT "${CMAKE_CURRENT_LIST_DIR}/MptuneInstallHeaders.cmake")

set(MPTUNE_PACKAGE "${CMAKE_INSTALL_LIBDIR}/cmake/mptune")
set(MPTUNE_ARCHIVE "${CMAKE_INSTALL_LIBDIR}/libmptune.a")
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/mptuneConfig.cmake.in" "${CMAKE_BINARY_DIR}/mptuneConfig.cmake"
                              INSTALL_DESTINATION "${MPTUNE_PACKAGE}" PATH_VARS CMAKE_INSTALL_INCLUDEDIR MPTUNE_ARCHIVE)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/mptuneConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/mptuneConfig.cmake" "${CMAKE_BINARY_DIR}/mptuneConfigVersion.cmake" DESTINATION "${MPTUNE_PACKAGE}")
install(DIRECTORY "${CMAKE_SOURCE_DIR}/examples/training_loop" "${CMAKE_SOURCE_DIR}/examples/own_cpp_model" "${CMAKE_SOURCE_DIR}/examples/own_python_model"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/mptune/examples" PATTERN run.sh EXCLUDE PATTERN __pycache__ EXCLUDE)  # run.sh is for the build tree
