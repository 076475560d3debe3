#include <algorithm>
#include <vector>

#include "tests/emulation/machine/copies.h"
#include "tests/emulation/machine/driver_call.h"
#include "tests/emulation/machine/memory.h"

using namespace emulation;

namespace {

void* address_of(CUdeviceptr pointer) {
  return reinterpret_cast<void*>(pointer);
}

CUresult copy_on(const DriverCall& call, CUstream handle, void* destination, const void* source, std::size_t bytes) {
  Stream* stream = stream_of(handle);
  return call.end(stream == nullptr ? kInvalidHandle : copy(*stream, destination, source, bytes));
}

}  // namespace

EMULATED_DRIVER_FUNCTION cuMemGetInfo(std::size_t* free, std::size_t* total) {
  EMULATED_DRIVER_CALL(cuMemGetInfo);
  if (current_context() == nullptr) return call.end(kInvalidContext);
  memory_info(current_context()->gpu, free, total);
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuMemAlloc(CUdeviceptr* made, std::size_t bytes) {
  EMULATED_DRIVER_CALL(cuMemAlloc);
  if (current_context() == nullptr) return call.end(kInvalidContext);
  void* memory = nullptr;
  const Status status = allocate_device(current_context()->gpu, bytes, &memory);
  *made = reinterpret_cast<CUdeviceptr>(memory);
  return call.end(status);
}

EMULATED_DRIVER_FUNCTION cuMemFree(CUdeviceptr memory) {
  EMULATED_DRIVER_CALL(cuMemFree);
  return call.end(free_device(address_of(memory)));
}

EMULATED_DRIVER_FUNCTION cuMemGetAddressRange(CUdeviceptr* begin, std::size_t* bytes, CUdeviceptr pointer) {
  EMULATED_DRIVER_CALL(cuMemGetAddressRange);
  const std::optional<Block> block = block_of(address_of(pointer));
  if (!block || block->kind != MemoryKind::device) return call.end(kInvalidValue);
  if (begin != nullptr) *begin = block->begin;
  if (bytes != nullptr) *bytes = block->bytes;
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  EMULATED_DRIVER_CALL(cuPointerGetAttribute);
  const std::optional<Block> block = block_of(address_of(pointer));
  if (!block) return call.end(kInvalidValue);
  const bool device = block->kind == MemoryKind::device;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<void**>(data) = &primary_context(std::max(0, block->gpu));
      break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) = device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(data) = pointer;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = std::max(0, block->gpu);
      break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *static_cast<bool*>(data) = false;
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(data) = block->begin;
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<std::size_t*>(data) = block->bytes;
      break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(data) = block->begin;
      break;
    default:
      return call.end(not_emulated("cuPointerGetAttribute of this attribute"));
  }
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuMemcpyAsync(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes, CUstream stream) {
  EMULATED_DRIVER_CALL(cuMemcpyAsync);
  return copy_on(call, stream, address_of(destination), address_of(source), bytes);
}

EMULATED_DRIVER_FUNCTION cuMemcpyHtoDAsync(CUdeviceptr destination, const void* source, std::size_t bytes, CUstream stream) {
  EMULATED_DRIVER_CALL(cuMemcpyHtoDAsync);
  return copy_on(call, stream, address_of(destination), source, bytes);
}

EMULATED_DRIVER_FUNCTION cuMemcpyDtoHAsync(void* destination, CUdeviceptr source, std::size_t bytes, CUstream stream) {
  EMULATED_DRIVER_CALL(cuMemcpyDtoHAsync);
  return copy_on(call, stream, destination, address_of(source), bytes);
}

EMULATED_DRIVER_FUNCTION cuMemcpyDtoDAsync(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes, CUstream stream) {
  EMULATED_DRIVER_CALL(cuMemcpyDtoDAsync);
  return copy_on(call, stream, address_of(destination), address_of(source), bytes);
}

EMULATED_DRIVER_FUNCTION cuMemsetD8Async(CUdeviceptr destination, unsigned char value, std::size_t bytes, CUstream handle) {
  EMULATED_DRIVER_CALL(cuMemsetD8Async);
  Stream* stream = stream_of(handle);
  return call.end(stream == nullptr ? kInvalidHandle : fill(*stream, address_of(destination), value, bytes));
}
