#include <dlfcn.h>

#include <initializer_list>
#include <string>

#include "tests/emulation/machine/driver_call.h"
#include "tests/emulation/machine/entry_point.h"

using namespace emulation;

namespace emulation {

/// Names as programs ask for them have no version. Functions that are not emulated are in a library of stubs, if at all.
void* driver_function(const char* name) {
  for (const char* version : {"", "_v2", "_v3", "_v4"})
    if (void* found = dlsym(RTLD_DEFAULT, (std::string(name) + version).c_str())) return found;
  return nullptr;
}

}  // namespace emulation

EMULATED_DRIVER_FUNCTION cuGetProcAddress(const char* name, void** found, int, cuuint64_t, CUdriverProcAddressQueryResult* result) {
  EMULATED_DRIVER_CALL(cuGetProcAddress);
  *found = driver_function(name);
  if (result != nullptr) *result = *found == nullptr ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND : CU_GET_PROC_ADDRESS_SUCCESS;
  return call.end(*found == nullptr ? kSymbolNotFound : kSuccess);
}
