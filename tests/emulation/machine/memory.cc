#include "tests/emulation/machine/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "tests/emulation/machine/gpus.h"
#include "tests/emulation/machine/race_check.h"
#include "tests/emulation/machine/shared_machine.h"
#include "tests/emulation/machine/status.h"
#include "tests/emulation/machine/stream.h"

namespace emulation {

namespace {

constexpr std::size_t kGranularity = 512;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kMostFilled = std::size_t{256} << 20U;

struct OwnedBlock {
  Block block;
  std::size_t mapped = 0;  ///< 0: the program's own memory
};

struct Blocks {
  std::shared_mutex mutex;
  std::map<std::uintptr_t, OwnedBlock> by_begin;
};

Blocks& blocks() {
  static Blocks& all = *new Blocks;
  return all;
}

std::size_t rounded(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

/// A page behind it stays unmapped: what runs over its end crashes.
void* map(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  mprotect(static_cast<char*>(memory) + bytes, kPage, PROT_NONE);
  return memory;
}

void add(const OwnedBlock& owned) {
  const std::unique_lock lock(blocks().mutex);
  blocks().by_begin[owned.block.begin] = owned;
}

/// Takes a block out of the map; mapped memory stays readable until it is unmapped.
std::optional<OwnedBlock> take(const void* memory, MemoryKind kind) {
  const std::unique_lock lock(blocks().mutex);
  const auto found = blocks().by_begin.find(reinterpret_cast<std::uintptr_t>(memory));
  if (found == blocks().by_begin.end() || found->second.block.kind != kind) return std::nullopt;
  const OwnedBlock owned = found->second;
  blocks().by_begin.erase(found);
  return owned;
}

void unmap(const OwnedBlock& owned) {
  forget_uses(reinterpret_cast<void*>(owned.block.begin), owned.block.bytes);
  if (owned.mapped != 0) munmap(reinterpret_cast<void*>(owned.block.begin), owned.mapped + kPage);
}

}  // namespace

void fill_with_nan(void* memory, std::size_t bytes) {
  std::memset(memory, 0xFF, std::min(bytes, kMostFilled));
}

Status allocate_device(int gpu, std::size_t bytes, void** made) {
  *made = nullptr;
  if (bytes == 0) return kSuccess;
  const std::size_t size = rounded(bytes, kGranularity), mapped = rounded(bytes, kPage);
  if (!take_memory(machine_gpu(gpu), size, memory_bytes())) return kOutOfMemory;
  void* memory = map(mapped);
  if (memory == nullptr) {
    give_memory(machine_gpu(gpu), size);
    return kOutOfMemory;
  }
  fill_with_nan(memory, size);
  add({{reinterpret_cast<std::uintptr_t>(memory), size, MemoryKind::device, gpu}, mapped});
  *made = memory;
  return kSuccess;
}

Status free_device(void* memory) {
  if (memory == nullptr) return kSuccess;
  const std::optional<Block> block = block_of(memory);
  if (!block || block->kind != MemoryKind::device) return kInvalidValue;
  const Status waited = wait_for_gpu(block->gpu);
  const std::optional<OwnedBlock> owned = take(memory, MemoryKind::device);
  if (!owned) return kInvalidValue;
  unmap(*owned);
  give_memory(machine_gpu(owned->block.gpu), owned->block.bytes);
  return waited;
}

Status allocate_pinned(std::size_t bytes, void** made) {
  *made = nullptr;
  if (bytes == 0) return kSuccess;
  const std::size_t mapped = rounded(bytes, kPage);
  void* memory = map(mapped);
  if (memory == nullptr) return kOutOfMemory;
  add({{reinterpret_cast<std::uintptr_t>(memory), bytes, MemoryKind::pinned, -1}, mapped});
  *made = memory;
  return kSuccess;
}

Status free_pinned(void* memory) {
  if (memory == nullptr) return kSuccess;
  Status waited = kSuccess;
  for (int gpu = 0; gpu < gpu_count(); ++gpu) waited = std::max(waited, wait_for_gpu(gpu));
  const std::optional<OwnedBlock> owned = take(memory, MemoryKind::pinned);
  if (!owned) return kInvalidValue;
  unmap(*owned);
  return waited;
}

Status pin(void* memory, std::size_t bytes) {
  if (memory == nullptr || bytes == 0) return kInvalidValue;
  if (block_of(memory)) return kHostMemoryAlreadyRegistered;
  add({{reinterpret_cast<std::uintptr_t>(memory), bytes, MemoryKind::pinned, -1}, 0});
  return kSuccess;
}

Status unpin(void* memory) {
  const std::optional<OwnedBlock> owned = take(memory, MemoryKind::pinned);
  if (!owned) return kHostMemoryNotRegistered;
  unmap(*owned);
  return kSuccess;
}

void memory_info(int gpu, std::size_t* free, std::size_t* total) {
  *total = memory_bytes();
  *free = *total - std::min<std::uint64_t>(*total, used_memory(machine_gpu(gpu)));
}

std::optional<Block> block_of(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const std::shared_lock lock(blocks().mutex);
  auto next = blocks().by_begin.upper_bound(at);
  if (next == blocks().by_begin.begin()) return std::nullopt;
  const Block& block = std::prev(next)->second.block;
  return at < block.begin + block.bytes ? std::optional(block) : std::nullopt;
}

}  // namespace emulation
