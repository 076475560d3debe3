include(GoogleTest)

# mptune_module(NAME [TORCH] [COLD] [PRECOMPILED target] [DEPENDS targets...] [EXCLUDE files...] [SOURCES files...])
# Adds a module: a static library of SOURCES, or of all .cc files in the folder except EXCLUDE. TORCH modules use LibTorch. PRECOMPILED: the
# target of another precompiled header than mptune_tensors of TORCH modules and mptune_standard of all others. COLD modules compute little:
# under the address sanitizer, where optimising takes half of the time to compile, they do without it.
function(mptune_module name)
  cmake_parse_arguments(MODULE "TORCH;COLD" "PRECOMPILED" "DEPENDS;EXCLUDE;SOURCES" ${ARGN})
  if(NOT MODULE_SOURCES)
    file(GLOB MODULE_SOURCES CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}/*.cc")
    list(REMOVE_ITEM MODULE_SOURCES ${MODULE_EXCLUDE})
  endif()
  add_library(${name} STATIC ${MODULE_SOURCES})
  target_link_libraries(${name} PUBLIC mptune_options ${MODULE_DEPENDS})
  if(MODULE_TORCH)
    mptune_use_torch(${name} PUBLIC ${MODULE_PRECOMPILED})
    return()
  endif()
  if(MPTUNE_SANITIZE AND NOT MODULE_COLD)
    return()  # the precompiled headers are not optimised
  endif()
  if(MPTUNE_SANITIZE)
    target_compile_options(${name} PRIVATE -O0)
  endif()
  if(MODULE_PRECOMPILED)
    mptune_reuse_precompiled(${name} ${MODULE_PRECOMPILED})
  else()
    mptune_reuse_precompiled(${name} mptune_standard)
  endif()
endfunction()

# Makes each case of the suites that match a test of ctest, with the label; more arguments are properties.
function(mptune_discover name label filter)
  gtest_discover_tests(${name} TEST_FILTER "${filter}" TEST_PREFIX "${name}.${label}." PROPERTIES LABELS ${label} DISCOVERY_TIMEOUT 60 ${ARGN})
endfunction()

# mptune_test(NAME [TORCH] [PRECOMPILED target] [DEVICES] [SHARDS N] [FOLDERS folders...] [DEPENDS targets...])
# Adds a GoogleTest program of all .cc files in FOLDERS, or in the current folder. Folders that need LibTorch share a program, as each program
# of its own loads the precompiled header and links LibTorch once more. DEVICES: its main() installs memory accounting and prepares GPUs.
# Suites whose names begin with Slow, Nightly or Gpu get the label slow, nightly or gpu (they need a GPU). NightlyTimed ones compare times and run
# alone.
# The unit tests of a TORCH program run in one process, as loading LibTorch takes a quarter of a second; so do those of every program under
# sanitizers, which start slowly. SHARDS: in so many processes, NAME.1 to NAME.N, and first, so that the longest is not the last.
# MPTUNE_SKIPPED_TESTS: patterns of GoogleTest, joined by colons, that unit tests which run in one process leave out.
function(mptune_test name)
  cmake_parse_arguments(TEST "TORCH;DEVICES" "PRECOMPILED;SHARDS" "FOLDERS;DEPENDS" ${ARGN})
  if(NOT TEST_FOLDERS)
    set(TEST_FOLDERS .)
  endif()
  list(TRANSFORM TEST_FOLDERS REPLACE "(.+)" "${CMAKE_CURRENT_SOURCE_DIR}/\\1/*.cc" OUTPUT_VARIABLE patterns)
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  # For tests/one.sh: the program of each folder of tests.
  foreach(folder IN LISTS TEST_FOLDERS)
    get_filename_component(folder "${folder}" ABSOLUTE)
    file(RELATIVE_PATH folder "${CMAKE_SOURCE_DIR}" "${folder}")
    file(APPEND "${CMAKE_BINARY_DIR}/test_programs.txt" "${folder} ${name}\n")
  endforeach()
  if(TEST_DEVICES)
    list(APPEND sources "${CMAKE_SOURCE_DIR}/tests/support/device_main.cc")
  endif()
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE mptune_options ${TEST_DEPENDS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE
    MPTUNE_SOURCE_DIR="${CMAKE_SOURCE_DIR}" MPTUNE_BINARY_DIR="${CMAKE_BINARY_DIR}" MPTUNE_PYTHON="${MPTUNE_PYTHON}")
  mptune_compile_as_test(${name})
  if(TEST_TORCH)
    mptune_use_torch(${name} PRIVATE ${TEST_PRECOMPILED})
  else()
    mptune_reuse_precompiled(${name} mptune_standard_and_gtest)
  endif()
  if(NOT TEST_TORCH AND NOT MPTUNE_SANITIZE)
    gtest_discover_tests(${name} TEST_FILTER "-Slow*:Gpu*:Nightly*" TEST_PREFIX "${name}." PROPERTIES LABELS unit DISCOVERY_TIMEOUT 60)
  elseif(TEST_SHARDS)
    foreach(shard RANGE 1 ${TEST_SHARDS})
      math(EXPR index "${shard} - 1")
      mptune_limited(command 450 "$<TARGET_FILE:${name}>" "--gtest_filter=-Slow*:Gpu*:Nightly*:${MPTUNE_SKIPPED_TESTS}")
      add_test(NAME ${name}.${shard} COMMAND ${command})
      set_tests_properties(${name}.${shard} PROPERTIES LABELS unit COST 100 TIMEOUT 3600 ENVIRONMENT "GTEST_TOTAL_SHARDS=${TEST_SHARDS};GTEST_SHARD_INDEX=${index}")
    endforeach()
  else()
    mptune_limited(command 450 "$<TARGET_FILE:${name}>" "--gtest_filter=-Slow*:Gpu*:Nightly*:${MPTUNE_SKIPPED_TESTS}")
    add_test(NAME ${name} COMMAND ${command})
    set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT 3600)
  endif()
  mptune_discover(${name} slow "Slow*" TIMEOUT 1500)
  mptune_discover(${name} nightly "Nightly*:-NightlyTimed*" TIMEOUT 7200)
  mptune_discover(${name} nightly "NightlyTimed*" TIMEOUT 7200 RUN_SERIAL ON)
  mptune_discover(${name} gpu "Gpu*")
endfunction()
