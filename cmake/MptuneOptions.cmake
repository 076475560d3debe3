include(GNUInstallDirs)

# Language, warnings, sanitizers: one INTERFACE target that every mptune target links.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(MPTUNE_CCACHE ccache)
if(MPTUNE_CCACHE)
  # ccache: relaxed checks serve sources that use a precompiled header; relative paths share results between checkouts.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
                                  CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_IGNOREOPTIONS=-Werror ${MPTUNE_CCACHE})
endif()

find_package(Threads REQUIRED)
add_library(mptune_options INTERFACE)
target_compile_options(mptune_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
# g++ collects no garbage below 2 GB, which no source reaches: a tenth less time, 0.3 GB more memory a job.
target_compile_options(mptune_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=2000000>)
target_link_libraries(mptune_options INTERFACE Threads::Threads)
target_compile_definitions(mptune_options INTERFACE MPTUNE_VERSION="${PROJECT_VERSION}")
if(MPTUNE_WERROR)
  target_compile_options(mptune_options INTERFACE -Werror)
endif()
if(MPTUNE_SANITIZE)
  # The checks' own branches make GCC warn falsely of uninitialised values in its library; the other presets keep that warning.
  # Sources of tests, which take a third longer to compile with them, do without those of undefined behaviour.
  target_compile_options(mptune_options INTERFACE
    -fsanitize=address $<$<NOT:$<BOOL:$<TARGET_PROPERTY:MPTUNE_TEST>>>:-fsanitize=undefined> -fno-sanitize-recover=undefined
    -fno-omit-frame-pointer -Wno-maybe-uninitialized)
  target_link_options(mptune_options INTERFACE -fsanitize=address,undefined)
elseif(MPTUNE_SANITIZE_THREADS)
  target_compile_options(mptune_options INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(mptune_options INTERFACE -fsanitize=thread)
else()
  # Except for code that shares a process with other C++ code (libraries opened at run time, users' programs and plug-ins): it uses the C++
  # library that is already loaded.
  target_link_options(mptune_options INTERFACE $<$<NOT:$<BOOL:$<TARGET_PROPERTY:MPTUNE_SHARED_RUNTIME>>>:-static-libstdc++;-static-libgcc>)
endif()

# Headers sit beside their sources and are included from the project's folder, as in "planner/plan/plan.h".
target_include_directories(mptune_options INTERFACE "${CMAKE_SOURCE_DIR}")
