# cmake -DBINARY=... -DWORK=... -DGENERATOR=... -DCOMPILER=... -P package.cmake
# The prefix is moved after the installation: nothing may remember where it was.
cmake_minimum_required(VERSION 3.25)

function(must_run words)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "exit ${code} of: ${ARGN}\n${text}")
  endif()
  if(NOT text MATCHES "${words}")
    message(FATAL_ERROR "no \"${words}\" in the output of: ${ARGN}\n${text}")
  endif()
endfunction()

function(must_fail words)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(code EQUAL 0)
    message(FATAL_ERROR "should have failed: ${ARGN}\n${text}")
  endif()
  if(NOT text MATCHES "${words}")
    message(FATAL_ERROR "no \"${words}\" in the output of: ${ARGN}\n${text}")
  endif()
endfunction()

unset(ENV{MPTUNE_WORKER})
unset(ENV{MPTUNE_PLAN})
unset(ENV{DESTDIR})
file(REMOVE_RECURSE "${WORK}")
set(prefix "${WORK}/moved")
must_run("" ${CMAKE_COMMAND} --install "${BINARY}" --prefix "${WORK}/installed")
file(RENAME "${WORK}/installed" "${prefix}")

must_run("resnet50" "${prefix}/bin/mptune" models)
must_run("LibTorch|libtorch" "${prefix}/bin/mptune" doctor)
file(GLOB schemas "${prefix}/share/mptune/schemas/*.json")
if(NOT schemas)
  message(FATAL_ERROR "no schemas below ${prefix}")
endif()
if(NOT EXISTS "${prefix}/share/mptune/python/mptune_plan.py")
  message(FATAL_ERROR "no reader of plans for Python below ${prefix}")
endif()
file(GLOB_RECURSE strays "${prefix}/*test*" "${prefix}/*gtest*" "${prefix}/*benchmark*")
if(strays)
  message(FATAL_ERROR "installed without need: ${strays}")
endif()

set(configure ${CMAKE_COMMAND} -G ${GENERATOR} -S "${prefix}/share/mptune/examples/training_loop"
              -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${COMPILER})
must_fail("version.py" ${configure} -B "${WORK}/refused" -DMPTUNE_TORCH_ROOT=${WORK})
must_run("" ${configure} -B "${WORK}/build")
must_run("" ${CMAKE_COMMAND} --build "${WORK}/build")
must_run("the losses agree; the net has learned" "${WORK}/build/training_loop")

# A plug-in of the installed package, in the installed program.
must_run("" ${CMAKE_COMMAND} -G ${GENERATOR} -S "${prefix}/share/mptune/examples/own_cpp_model" -B "${WORK}/own"
            -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=Release)
must_run("" ${CMAKE_COMMAND} --build "${WORK}/own" --target net)
must_run("block5" "${prefix}/bin/mptune" models "${WORK}/own/libnet.so")
file(REMOVE_RECURSE "${WORK}")
