#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tests/emulation/machine/memory.h"
#include "tests/emulation/machine/status.h"
#include "tests/emulation/machine/stream.h"

namespace emulation {

namespace {

bool is_copy(WorkKind kind) {
  return kind == WorkKind::copy || kind == WorkKind::peer_copy;
}

/// Fills in what the addresses tell. False: a range is larger than its block.
bool locate(const void* address, double bytes, MemoryKind& kind, int& gpu) {
  const std::optional<Block> block = block_of(address);
  if (!block) return true;
  kind = block->kind;
  gpu = block->gpu;
  return reinterpret_cast<std::uintptr_t>(address) + static_cast<std::size_t>(bytes) <= block->begin + block->bytes;
}

/// Bytes of pageable memory are taken at the call, as the program may change them behind it.
void take_bytes_now(Task& task) {
  const auto bytes = static_cast<std::size_t>(task.work.bytes);
  std::shared_ptr<char[]> taken(new char[bytes]);
  std::memcpy(taken.get(), task.work.source, bytes);
  task.work.compute = [taken, bytes, destination = task.work.destination] { std::memcpy(destination, taken.get(), bytes); };
}

Status prepare_copy(Task& task) {
  Work& work = task.work;
  if (!locate(work.source, work.bytes, task.source_kind, task.source_gpu)) return kInvalidValue;
  if (!locate(work.destination, work.bytes, task.destination_kind, task.destination_gpu)) return kInvalidValue;
  const bool peers = task.source_gpu >= 0 && task.destination_gpu >= 0 && task.source_gpu != task.destination_gpu;
  work.kind = peers ? WorkKind::peer_copy : WorkKind::copy;
  const auto bytes = static_cast<std::size_t>(work.bytes);
  if (task.source_kind != MemoryKind::pageable) work.uses.push_back({work.source, bytes, false});
  if (task.destination_kind != MemoryKind::pageable) work.uses.push_back({work.destination, bytes, true});
  if (!work.compute && task.source_kind == MemoryKind::pageable && task.destination_kind == MemoryKind::device) take_bytes_now(task);
  return kSuccess;
}

Status prepare_fill(Task& task) {
  Work& work = task.work;
  if (!locate(work.destination, work.bytes, task.destination_kind, task.destination_gpu)) return kInvalidValue;
  if (task.destination_kind != MemoryKind::device) return kInvalidValue;
  work.uses.push_back({work.destination, static_cast<std::size_t>(work.bytes), true});
  return kSuccess;
}

/// The check knows only memory of blocks: what the program frees itself may become anything.
void forget_pageable(std::vector<Range>& uses) {
  std::erase_if(uses, [](const Range& use) { return !block_of(use.begin); });
}

/// A kernel may use memory of its GPU, of GPUs that it reaches, and of the host; only within the blocks.
Status check_addresses(const Stream& stream, const Work& work) {
  for (const Range& use : work.uses) {
    MemoryKind kind = MemoryKind::pageable;
    int gpu = -1;
    if (!locate(use.begin, static_cast<double>(use.bytes), kind, gpu)) return kIllegalAddress;
    if (gpu >= 0 && !is_peer_enabled(stream.gpu, gpu)) return kIllegalAddress;
  }
  return kSuccess;
}

Status prepare(const Stream& stream, Task& task) {
  if (is_copy(task.work.kind)) return prepare_copy(task);
  if (task.work.kind == WorkKind::fill) return prepare_fill(task);
  forget_pageable(task.work.uses);
  if (task.work.kind != WorkKind::kernel) return kSuccess;
  return check_addresses(stream, task.work);
}

}  // namespace

Status submit(Stream& stream, Work work) {
  if (const Status error = sticky_error(stream.gpu)) return error;
  Task task;
  task.work = std::move(work);
  const Status prepared = prepare(stream, task);
  if (prepared == kIllegalAddress) {
    std::fprintf(stderr, "%s on GPU %d uses memory that it does not reach\n", task.work.name, stream.gpu);
    set_sticky_error(stream.gpu, kIllegalAddress);
  }
  if (prepared != kSuccess) return prepared;
  const bool waits = is_copy(task.work.kind) && task.destination_kind == MemoryKind::pageable;
  append(stream, std::move(task));
  return waits ? wait_for(stream) : sticky_error(stream.gpu);
}

void poison(Stream& stream, void* begin, std::size_t bytes) {
  Task task;
  task.kind = Task::Kind::poison;
  task.work.name = "the memory's new owner";
  task.work.destination = begin;
  task.work.bytes = static_cast<double>(bytes);
  task.work.uses.push_back({begin, bytes, true});
  append(stream, std::move(task));
}

}  // namespace emulation
