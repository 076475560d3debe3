#include "tests/emulation/machine/memory.h"

#include <algorithm>
#include <optional>

#include "tests/emulation/machine/copies.h"
#include "tests/emulation/machine/events.h"
#include "tests/emulation/runtime/operators.h"
#include "tests/emulation/runtime/runtime_call.h"

using namespace emulation;

namespace {

bool is_device(const void* address) {
  const std::optional<Block> block = block_of(address);
  return block && block->kind == MemoryKind::device;
}

/// As CUDA checks it: memory of a GPU where the program says so, and none where it says that it is the host's.
bool fits_direction(const void* destination, const void* source, cudaMemcpyKind kind) {
  const bool from = is_device(source), to = is_device(destination);
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !from && !to;
    case cudaMemcpyHostToDevice:
      return !from && to;
    case cudaMemcpyDeviceToHost:
      return from && !to;
    case cudaMemcpyDeviceToDevice:
      return from && to;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

Status copy_on(cudaStream_t handle, void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind) {
  Stream* stream = stream_of(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (bytes == 0) return kSuccess;
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return kInvalidMemcpyDirection;
  return fits_direction(destination, source, kind) ? copy(*stream, destination, source, bytes) : kInvalidValue;
}

Status peer_copy_on(cudaStream_t handle, void* destination, int destination_gpu, const void* source, int source_gpu, std::size_t bytes) {
  Stream* stream = stream_of(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (!is_gpu(destination_gpu) || !is_gpu(source_gpu)) return kInvalidDevice;
  const std::optional<Block> from = block_of(source), to = block_of(destination);
  const bool fits = bytes == 0 || (from && to && from->gpu == source_gpu && to->gpu == destination_gpu);
  return fits ? copy(*stream, destination, source, bytes) : kInvalidValue;
}

Status then_wait(Status submitted) {
  return submitted == kSuccess ? wait_for(*stream_of(nullptr)) : submitted;
}

}  // namespace

EMULATED_RUNTIME_FUNCTION cudaMalloc(void** made, std::size_t bytes) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaMalloc_v3020);
  open_operators();
  return call.end(allocate_device(current_gpu(), bytes, made));
}

EMULATED_RUNTIME_FUNCTION cudaFree(void* memory) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaFree_v3020);
  open_operators();
  return call.end(free_device(memory));
}

EMULATED_RUNTIME_FUNCTION cudaHostAlloc(void** made, std::size_t bytes, unsigned) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaHostAlloc_v3020);
  return call.end(allocate_pinned(bytes, made));
}

EMULATED_RUNTIME_FUNCTION cudaMallocHost(void** made, std::size_t bytes) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaMallocHost_v3020);
  return call.end(allocate_pinned(bytes, made));
}

EMULATED_RUNTIME_FUNCTION cudaFreeHost(void* memory) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaFreeHost_v3020);
  return call.end(free_pinned(memory));
}

EMULATED_RUNTIME_FUNCTION cudaHostRegister(void* memory, std::size_t bytes, unsigned) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaHostRegister_v4000);
  return call.end(pin(memory, bytes));
}

EMULATED_RUNTIME_FUNCTION cudaHostUnregister(void* memory) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaHostUnregister_v4000);
  return call.end(unpin(memory));
}

EMULATED_RUNTIME_FUNCTION cudaHostGetDevicePointer(void** pointer, void* memory, unsigned) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaHostGetDevicePointer_v3020);
  if (!block_of(memory)) return call.end(kInvalidValue);
  *pointer = memory;
  return call.end(kSuccess);
}

EMULATED_RUNTIME_FUNCTION cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaMemGetInfo_v3020);
  memory_info(current_gpu(), free, total);
  return call.end(kSuccess);
}

EMULATED_RUNTIME_FUNCTION cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaPointerGetAttributes_v4000);
  *attributes = {};
  attributes->device = -2;  // of memory that CUDA does not know
  const std::optional<Block> block = block_of(pointer);
  if (!block) return call.end(kSuccess);
  const bool device = block->kind == MemoryKind::device;
  attributes->type = device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
  attributes->device = std::max(0, block->gpu);
  attributes->devicePointer = const_cast<void*>(pointer);
  if (!device) attributes->hostPointer = const_cast<void*>(pointer);
  return call.end(kSuccess);
}

EMULATED_RUNTIME_FUNCTION cudaMemcpyAsync(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind,
                                          cudaStream_t stream) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaMemcpyAsync_v3020);
  return call.end(copy_on(stream, destination, source, bytes, kind));
}

EMULATED_RUNTIME_FUNCTION cudaMemcpy(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaMemcpy_v3020);
  return call.end(then_wait(copy_on(nullptr, destination, source, bytes, kind)));
}

EMULATED_RUNTIME_FUNCTION cudaMemcpyPeerAsync(void* destination, int destination_gpu, const void* source, int source_gpu, std::size_t bytes,
                                              cudaStream_t stream) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaMemcpyPeerAsync_v4000);
  return call.end(peer_copy_on(stream, destination, destination_gpu, source, source_gpu, bytes));
}

EMULATED_RUNTIME_FUNCTION cudaMemcpyPeer(void* destination, int destination_gpu, const void* source, int source_gpu, std::size_t bytes) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaMemcpyPeer_v4000);
  return call.end(then_wait(peer_copy_on(nullptr, destination, destination_gpu, source, source_gpu, bytes)));
}

EMULATED_RUNTIME_FUNCTION cudaMemcpy2DAsync(void* destination, std::size_t destination_pitch, const void* source, std::size_t source_pitch,
                                            std::size_t bytes, std::size_t rows, cudaMemcpyKind kind, cudaStream_t handle) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaMemcpy2DAsync_v3020);
  Stream* stream = stream_of(handle);
  if (stream == nullptr) return call.end(kInvalidHandle);
  if (!fits_direction(destination, source, kind)) return call.end(kInvalidValue);
  return call.end(copy_rows(*stream, destination, source, {bytes, rows, destination_pitch, source_pitch}));
}

EMULATED_RUNTIME_FUNCTION cudaMemsetAsync(void* destination, int value, std::size_t bytes, cudaStream_t handle) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaMemsetAsync_v3020);
  Stream* stream = stream_of(handle);
  return call.end(stream == nullptr ? kInvalidHandle : fill(*stream, destination, value, bytes));
}

EMULATED_RUNTIME_FUNCTION cudaMemset(void* destination, int value, std::size_t bytes) {
  EMULATED_RUNTIME_CALL_ON_GPU(cudaMemset_v3020);
  return call.end(fill(*stream_of(nullptr), destination, value, bytes));
}
