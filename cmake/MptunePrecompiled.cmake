# Precompiled headers: each is made once for all targets that share the flags it was made with. A source still includes what it uses.
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/precompiled.cc" CONTENT "")

# mptune_precompiled(NAME LIBRARIES HEADERS...) adds a target whose precompiled header others reuse.
function(mptune_precompiled name libraries)
  add_library(${name} STATIC "${CMAKE_BINARY_DIR}/precompiled.cc")
  target_link_libraries(${name} PUBLIC mptune_options ${libraries})
  target_precompile_headers(${name} PRIVATE ${ARGN})
  if(MPTUNE_SANITIZE)
    target_compile_options(${name} PRIVATE -O0)  # as those that reuse it
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

# Tests take longer to compile than to run: half as long under sanitizers without optimisation, three quarters with less of it elsewhere.
function(mptune_compile_as_test target)
  set_target_properties(${target} PROPERTIES MPTUNE_TEST ON)
  if(MPTUNE_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  elseif(CMAKE_BUILD_TYPE STREQUAL Release)
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()

set(MPTUNE_STANDARD_HEADERS <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex>
                            <numeric> <optional> <random> <set> <span> <sstream> <string> <string_view> <thread> <tuple> <unordered_map> <utility> <variant> <vector>)
mptune_precompiled(mptune_standard "" ${MPTUNE_STANDARD_HEADERS})
if(MPTUNE_TESTS)
  mptune_precompiled(mptune_standard_and_gtest "GTest::gmock" ${MPTUNE_STANDARD_HEADERS} <gmock/gmock.h> <gtest/gtest.h>)
  mptune_compile_as_test(mptune_standard_and_gtest)
endif()
