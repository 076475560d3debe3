#pragma once

#include <exception>
#include <string>

#include "tests/emulation/nccl/failure.h"

namespace emulation {

/// What ncclGetLastError() says from now on; of the whole process, as NCCL's.
void set_last_error(const NcclFailure& failure);
[[nodiscard]] const char* last_error_text();

/// The body of a function of NCCL: returns the code of the failure that it throws.
template <class Function>
ncclResult_t guarded(const Function& function) {
  try {
    return function();
  } catch (const NcclFailure& failure) {
    set_last_error(failure);
    return failure.code();
  } catch (const std::exception& error) {
    set_last_error({ncclInternalError, error.what()});
    return ncclInternalError;
  }
}

}  // namespace emulation
