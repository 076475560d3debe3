# cmake -DBINARY=... -DWORK=... -DGENERATOR=... -DCOMPILER=... -P package.cmake
# Leaves in WORK what examples/build.sh makes. Moves the prefix after the installation, to check that nothing depends on its path.
cmake_minimum_required(VERSION 3.25)

include("${CMAKE_CURRENT_LIST_DIR}/must.cmake")

unset(ENV{MPTUNE_WORKER})
unset(ENV{MPTUNE_PLAN})
unset(ENV{DESTDIR})
file(REMOVE_RECURSE "${WORK}")
set(prefix "${WORK}/mptune")
must_run("" ${CMAKE_COMMAND} --install "${BINARY}" --prefix "${WORK}/installed")
file(RENAME "${WORK}/installed" "${prefix}")

must_run("resnet50" "${prefix}/bin/mptune" models)
must_run("LibTorch|libtorch" "${prefix}/bin/mptune" doctor)
file(GLOB schemas "${prefix}/share/mptune/schemas/*.json")
if(NOT schemas)
  message(FATAL_ERROR "no schemas below ${prefix}")
endif()
foreach(file IN ITEMS mptune_plan.py mptune_export.py)
  if(NOT EXISTS "${prefix}/share/mptune/python/${file}")
    message(FATAL_ERROR "no ${file} below ${prefix}")
  endif()
endforeach()
foreach(file IN ITEMS man/man1/mptune.1 man/man1/mptune-tune.1 bash-completion/completions/mptune zsh/site-functions/_mptune fish/vendor_completions.d/mptune.fish)
  if(NOT EXISTS "${prefix}/share/${file}")
    message(FATAL_ERROR "no share/${file} below ${prefix}")
  endif()
endforeach()
file(GLOB_RECURSE strays "${prefix}/*test*" "${prefix}/*gtest*" "${prefix}/*benchmark*")
if(strays)
  message(FATAL_ERROR "installed without need: ${strays}")
endif()

set(configure ${CMAKE_COMMAND} -G ${GENERATOR} -S "${prefix}/share/mptune/examples/training_loop"
              -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${COMPILER})
must_fail("version.py" ${configure} -B "${WORK}/refused" -DMPTUNE_TORCH_ROOT=${WORK})
# -Og: half the time to compile.
must_run("" ${configure} -B "${WORK}/training_loop" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-Og)
must_run("" ${CMAKE_COMMAND} --build "${WORK}/training_loop")

# A plug-in of the installed package, in the installed program.
must_run("" ${CMAKE_COMMAND} -G ${GENERATOR} -S "${prefix}/share/mptune/examples/own_cpp_model" -B "${WORK}/own_cpp_model"
            -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-Og)
must_run("" ${CMAKE_COMMAND} --build "${WORK}/own_cpp_model")
must_run("block5" "${prefix}/bin/mptune" models "${WORK}/own_cpp_model/libnet.so")
