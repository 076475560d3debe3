#include "tests/emulation/nccl/last_error.h"

#include <cstdio>
#include <mutex>

#include "tests/emulation/machine/machine.h"

namespace emulation {
namespace {

std::mutex error_mutex;
const char* error_text = "";

}  // namespace

void set_last_error(const NcclFailure& failure) {
  static const bool says = setting_text("NCCL_DEBUG", "") == "1";
  if (says) std::fprintf(stderr, "NCCL: %s\n", failure.what());
  const std::lock_guard lock(error_mutex);
  error_text = intern(failure.what());
}

const char* last_error_text() {
  const std::lock_guard lock(error_mutex);
  return error_text;
}

}  // namespace emulation
