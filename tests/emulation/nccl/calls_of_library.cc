// NCCL's functions about itself, and about memory.
#include <array>

#include "tests/emulation/machine/machine.h"
#include "tests/emulation/machine/memory.h"
#include "tests/emulation/nccl/communicator.h"
#include "tests/emulation/nccl/last_error.h"

using namespace emulation;

NCCL_FUNCTION ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return ncclInvalidArgument;
  *version = kNcclVersion;
  return ncclSuccess;
}

NCCL_FUNCTION const char* ncclGetErrorString(ncclResult_t result) {
  constexpr std::array kTexts{"no error",
                              "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
                              "unhandled system error (run with NCCL_DEBUG=INFO for details)",
                              "internal error - please report this issue to the NCCL developers",
                              "invalid argument (run with NCCL_DEBUG=WARN for details)",
                              "invalid usage (run with NCCL_DEBUG=WARN for details)",
                              "remote process exited or there was a network error",
                              "NCCL operation in progress"};
  return result >= 0 && static_cast<std::size_t>(result) < kTexts.size() ? kTexts[static_cast<std::size_t>(result)] : "unknown result code";
}

NCCL_FUNCTION const char* ncclGetLastError(ncclComm_t) {
  return last_error_text();
}

NCCL_FUNCTION ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes) {
  if (memory == nullptr) return ncclInvalidArgument;
  return allocate_device(current_gpu(), bytes, memory) == 0 ? ncclSuccess : ncclUnhandledCudaError;
}

NCCL_FUNCTION ncclResult_t ncclMemFree(void* memory) {
  return free_device(memory) == 0 ? ncclSuccess : ncclUnhandledCudaError;
}

// Registered memory moves faster on a GPU; here all memory is alike.
NCCL_FUNCTION ncclResult_t ncclCommRegister(const ncclComm_t comm, void* memory, std::size_t, void** handle) {
  if (comm == nullptr || handle == nullptr) return ncclInvalidArgument;
  *handle = memory;
  return ncclSuccess;
}

NCCL_FUNCTION ncclResult_t ncclCommDeregister(const ncclComm_t comm, void*) {
  return comm == nullptr ? ncclInvalidArgument : ncclSuccess;
}

// Memory that all members' kernels read and write.
NCCL_FUNCTION ncclResult_t ncclCommWindowRegister(ncclComm_t, void*, std::size_t, void**, int) {
  (void)not_emulated("ncclCommWindowRegister");
  return ncclInvalidUsage;
}

NCCL_FUNCTION ncclResult_t ncclCommWindowDeregister(ncclComm_t, void*) {
  (void)not_emulated("ncclCommWindowDeregister");
  return ncclInvalidUsage;
}

NCCL_FUNCTION ncclResult_t ncclDevCommCreate(ncclComm_t, const void*, void*) {
  (void)not_emulated("ncclDevCommCreate");
  return ncclInvalidUsage;
}

NCCL_FUNCTION ncclResult_t ncclDevCommDestroy(ncclComm_t, const void*) {
  (void)not_emulated("ncclDevCommDestroy");
  return ncclInvalidUsage;
}
