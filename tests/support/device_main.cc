#include <gtest/gtest.h>

#include <cstdio>

#include "mptune/profiler/device/device.h"

// Of test programs that use devices: memory is accounted from the first allocation on, GPUs are used where there are any.
int main(int argc, char** argv) {
  mptune::install_cpu_accounting();
  try {
    mptune::prepare_gpus();
  } catch (const std::exception& error) {
    std::printf("no GPUs: %s\n", error.what());
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
