# mptune_module(NAME [TORCH] [DEPENDS targets...] [EXCLUDE files...] [SOURCES files...])
# Adds a module: a static library of SOURCES, or of all .cc files in the folder except EXCLUDE. TORCH modules use LibTorch and share one
# precompiled header.
function(mptune_module name)
  cmake_parse_arguments(MODULE "TORCH" "" "DEPENDS;EXCLUDE;SOURCES" ${ARGN})
  if(NOT MODULE_SOURCES)
    file(GLOB MODULE_SOURCES CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}/*.cc")
    list(REMOVE_ITEM MODULE_SOURCES ${MODULE_EXCLUDE})
  endif()
  add_library(${name} STATIC ${MODULE_SOURCES})
  target_link_libraries(${name} PUBLIC mptune_options ${MODULE_DEPENDS})
  if(MODULE_TORCH)
    mptune_use_torch(${name} PUBLIC)
  endif()
endfunction()

# mptune_test(NAME [TORCH] [DEVICES] [SHARDS N] [DEPENDS targets...])
# Adds a GoogleTest program of all .cc files in the current folder. DEVICES: its main() installs memory accounting and prepares GPUs.
# Suites whose names begin with Slow get the label slow; those that begin with SlowTimed compare times and run alone. Suites that need a GPU
# begin with Gpu and get the label gpu.
# SHARDS: the unit tests of a TORCH program run as so many tests of ctest, NAME.1 to NAME.N, and first, so that the longest is not the last.
# MPTUNE_SKIPPED_TESTS: patterns of GoogleTest, joined by colons, that the unit tests of TORCH programs leave out.
function(mptune_test name)
  cmake_parse_arguments(TEST "TORCH;DEVICES" "SHARDS" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cc")
  if(TEST_DEVICES)
    list(APPEND sources "${CMAKE_SOURCE_DIR}/tests/support/device_main.cc")
  endif()
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE mptune_options ${TEST_DEPENDS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE
    MPTUNE_SOURCE_DIR="${CMAKE_SOURCE_DIR}" MPTUNE_BINARY_DIR="${CMAKE_BINARY_DIR}" MPTUNE_PYTHON="${MPTUNE_PYTHON}")
  # Tests take longer to compile than to run: half as long under sanitizers without optimisation, three quarters with less of it elsewhere.
  if(MPTUNE_SANITIZE)
    target_compile_options(${name} PRIVATE -O0)
  elseif(CMAKE_BUILD_TYPE STREQUAL Release)
    target_compile_options(${name} PRIVATE -O1)
  endif()
  if(TEST_TORCH)
    mptune_use_torch(${name} PRIVATE)
  endif()
  include(GoogleTest)
  # All tests of a program with LibTorch, or of a shard, run in one process: loading it takes a quarter of a second.
  if(TEST_TORCH AND TEST_SHARDS)
    foreach(shard RANGE 1 ${TEST_SHARDS})
      math(EXPR index "${shard} - 1")
      add_test(NAME ${name}.${shard} COMMAND ${name} "--gtest_filter=-Slow*:Gpu*:${MPTUNE_SKIPPED_TESTS}")
      set_tests_properties(${name}.${shard} PROPERTIES LABELS unit COST 100 ENVIRONMENT "GTEST_TOTAL_SHARDS=${TEST_SHARDS};GTEST_SHARD_INDEX=${index}")
    endforeach()
  elseif(TEST_TORCH)
    add_test(NAME ${name} COMMAND ${name} "--gtest_filter=-Slow*:Gpu*:${MPTUNE_SKIPPED_TESTS}")
    set_tests_properties(${name} PROPERTIES LABELS unit)
  else()
    gtest_discover_tests(${name} TEST_FILTER "-Slow*:Gpu*" TEST_PREFIX "${name}." PROPERTIES LABELS unit DISCOVERY_TIMEOUT 60)
  endif()
  gtest_discover_tests(${name} TEST_FILTER "Slow*:-SlowTimed*" TEST_PREFIX "${name}.slow." PROPERTIES LABELS slow TIMEOUT 1500 DISCOVERY_TIMEOUT 60)
  gtest_discover_tests(${name} TEST_FILTER "SlowTimed*" TEST_PREFIX "${name}.slow." PROPERTIES LABELS slow TIMEOUT 1500 RUN_SERIAL ON DISCOVERY_TIMEOUT 60)
  gtest_discover_tests(${name} TEST_FILTER "Gpu*" TEST_PREFIX "${name}.gpu." PROPERTIES LABELS gpu DISCOVERY_TIMEOUT 60)
endfunction()
