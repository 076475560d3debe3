#include <vector>

#include "tests/emulation/machine/attributes.h"
#include "tests/emulation/machine/driver_call.h"
#include "tests/emulation/machine/events.h"

using namespace emulation;

namespace {

CUcontext handle_of(Context* context) {
  return reinterpret_cast<CUcontext>(context);
}
Context* context_of(CUcontext handle) {
  return reinterpret_cast<Context*>(handle);
}

/// cuCtxPushCurrent's; the last one is current.
std::vector<Context*>& context_stack() {
  static thread_local std::vector<Context*> stack;
  return stack;
}

}  // namespace

EMULATED_DRIVER_FUNCTION cuDevicePrimaryCtxRetain(CUcontext* made, CUdevice gpu) {
  EMULATED_DRIVER_CALL(cuDevicePrimaryCtxRetain);
  if (!is_gpu(gpu)) return call.end(kInvalidDevice);
  activate_primary(gpu);
  *made = handle_of(&primary_context(gpu));
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuDevicePrimaryCtxRelease(CUdevice gpu) {
  EMULATED_DRIVER_CALL(cuDevicePrimaryCtxRelease);
  return call.end(is_gpu(gpu) ? kSuccess : kInvalidDevice);
}

EMULATED_DRIVER_FUNCTION cuDevicePrimaryCtxGetState(CUdevice gpu, unsigned* flags, int* active) {
  EMULATED_DRIVER_CALL(cuDevicePrimaryCtxGetState);
  if (!is_gpu(gpu)) return call.end(kInvalidDevice);
  *flags = 0;
  *active = is_primary_active(gpu) ? 1 : 0;
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuCtxGetCurrent(CUcontext* current) {
  EMULATED_DRIVER_CALL(cuCtxGetCurrent);
  *current = handle_of(current_context());
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuCtxSetCurrent(CUcontext context) {
  EMULATED_DRIVER_CALL(cuCtxSetCurrent);
  set_current_context(context_of(context));
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuCtxPushCurrent(CUcontext context) {
  EMULATED_DRIVER_CALL(cuCtxPushCurrent);
  context_stack().push_back(current_context());
  set_current_context(context_of(context));
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuCtxPopCurrent(CUcontext* popped) {
  EMULATED_DRIVER_CALL(cuCtxPopCurrent);
  if (context_stack().empty()) return call.end(kInvalidContext);
  if (popped != nullptr) *popped = handle_of(current_context());
  set_current_context(context_stack().back());
  context_stack().pop_back();
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuCtxGetDevice(CUdevice* gpu) {
  EMULATED_DRIVER_CALL(cuCtxGetDevice);
  if (current_context() == nullptr) return call.end(kInvalidContext);
  *gpu = current_context()->gpu;
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuCtxGetId(CUcontext context, unsigned long long* id) {
  EMULATED_DRIVER_CALL(cuCtxGetId);
  const Context* found = context == nullptr ? current_context() : context_of(context);
  if (found == nullptr) return call.end(kInvalidContext);
  *id = found->id;
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuCtxSynchronize() {
  EMULATED_DRIVER_CALL(cuCtxSynchronize);
  if (current_context() == nullptr) return call.end(kInvalidContext);
  return call.end(host_waits_for_gpu(current_context()->gpu));
}

EMULATED_DRIVER_FUNCTION cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  EMULATED_DRIVER_CALL(cuCtxGetStreamPriorityRange);
  if (least != nullptr) *least = kLeastPriority;
  if (greatest != nullptr) *greatest = kGreatestPriority;
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuCtxEnablePeerAccess(CUcontext other, unsigned) {
  EMULATED_DRIVER_CALL(cuCtxEnablePeerAccess);
  if (current_context() == nullptr || other == nullptr) return call.end(kInvalidContext);
  return call.end(enable_peer(current_context()->gpu, context_of(other)->gpu));
}
