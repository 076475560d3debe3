# cmake -DWORK=... -DGENERATOR=... -P clang_plugin.cmake
# The plug-in of examples/own_cpp_model, made by clang++, is loaded by the program that g++ made. WORK is what package.cmake left.
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/must.cmake")

find_program(CLANG NAMES clang++)
if(NOT CLANG)
  message("skipped: clang++ is not installed")
  return()
endif()
unset(ENV{MPTUNE_WORKER})
unset(ENV{MPTUNE_PLAN})
set(prefix "${WORK}/mptune")
set(build "${WORK}/clang_model")
file(REMOVE_RECURSE "${build}")
must_run("" ${CMAKE_COMMAND} -G ${GENERATOR} -S "${prefix}/share/mptune/examples/own_cpp_model" -B "${build}" -DCMAKE_PREFIX_PATH=${prefix}
            -DCMAKE_CXX_COMPILER=${CLANG})
must_run("" ${CMAKE_COMMAND} --build "${build}" --target net)
must_run("block5" "${prefix}/bin/mptune" models "${build}/libnet.so")
must_run("" "${prefix}/bin/mptune" check "${build}/libnet.so")
