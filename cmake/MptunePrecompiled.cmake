# Precompiled headers: each is made once for all targets that share the flags it was made with. A source still includes what it uses.
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/precompiled.cc" CONTENT "")

# Compiles TARGET of a release build with little optimisation, which takes half the time of -O2.
function(mptune_compile_lightly target)
  if(CMAKE_BUILD_TYPE STREQUAL Release)
    target_compile_options(${target} PRIVATE -Og)
  endif()
endfunction()

# mptune_precompiled(NAME [LIGHTLY] [LIBRARIES libraries...] HEADERS headers...) adds a target whose precompiled header others reuse. Its
# optimisation is that of all who reuse it, whatever their own options say: g++ takes it from the precompiled header.
function(mptune_precompiled name)
  cmake_parse_arguments(PRECOMPILED "LIGHTLY" "" "LIBRARIES;HEADERS" ${ARGN})
  add_library(${name} STATIC EXCLUDE_FROM_ALL "${CMAKE_BINARY_DIR}/precompiled.cc")
  target_link_libraries(${name} PUBLIC mptune_options ${PRECOMPILED_LIBRARIES})
  target_precompile_headers(${name} PRIVATE ${PRECOMPILED_HEADERS})
  if(PRECOMPILED_LIGHTLY)
    mptune_compile_lightly(${name})
  endif()
endfunction()

function(mptune_reuse_precompiled target name)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    # Precompiled headers are made with -fPIC; executables would be compiled with -fPIE and could not use them.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${name})
endfunction()

set(MPTUNE_STANDARD_HEADERS <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex>
                            <numeric> <optional> <random> <set> <span> <sstream> <string> <string_view> <thread> <tuple> <unordered_map> <utility> <variant> <vector>)
mptune_precompiled(mptune_standard HEADERS ${MPTUNE_STANDARD_HEADERS})
mptune_precompiled(mptune_standard_lightly LIGHTLY HEADERS ${MPTUNE_STANDARD_HEADERS})
if(MPTUNE_TESTS)
  mptune_precompiled(mptune_standard_and_gtest LIGHTLY LIBRARIES GTest::gmock HEADERS ${MPTUNE_STANDARD_HEADERS} <gmock/gmock.h> <gtest/gtest.h>)
  set_target_properties(mptune_standard_and_gtest PROPERTIES MPTUNE_TEST ON)
endif()
