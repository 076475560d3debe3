#include <gtest/gtest.h>

#include <cstdio>

#include "profiler/device/device.h"

// main() of test programs that use devices: installs memory accounting before the first allocation, and prepares GPUs.
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
