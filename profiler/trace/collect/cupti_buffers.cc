#include "profiler/trace/collect/cupti_buffers.h"

#include <sys/mman.h>

#include <algorithm>

#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune::profiler {

namespace {
constexpr std::size_t kPrepared = 8;
constexpr std::size_t kPage = 4096;
}  // namespace

CuptiBuffers::CuptiBuffers() {
  void* memory = mmap(nullptr, kBytes * kCount, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw Error("not enough address space for the buffers of a recording", "2 GiB", "raise the limit on virtual memory (ulimit -v)",
                ExitCode::environment);
  memory_ = static_cast<std::byte*>(memory);
}

CuptiBuffers::~CuptiBuffers() {
  munmap(memory_, kBytes * kCount);
}

void CuptiBuffers::prepare() {
  for (std::size_t i = 0; i < kPrepared; ++i) {
    if (states_[i].load() != State::free) continue;
    for (std::size_t offset = 0; offset < kBytes; offset += kPage) {
      volatile std::byte& page = buffer(i)[offset];
      page = std::byte{0};
    }
  }
  next_ = 0;
}

std::byte* CuptiBuffers::take() {
  const std::size_t first = next_.load(std::memory_order_relaxed);
  for (std::size_t tried = 0; tried < kCount; ++tried) {
    const std::size_t i = (first + tried) % kCount;
    State expected = State::free;
    if (!states_[i].compare_exchange_strong(expected, State::taken, std::memory_order_acquire)) continue;
    next_.store(i + 1, std::memory_order_relaxed);
    return buffer(i);
  }
  return nullptr;
}

void CuptiBuffers::give(std::byte* given, std::size_t valid) {
  const std::size_t i = as_index(given - memory_) / kBytes;
  valid_[i] = std::min(valid, kBytes);
  states_[i].store(State::full, std::memory_order_release);
}

// Returns the pages to the kernel, which zeroes them at the next write.
void CuptiBuffers::clear(std::size_t index) {
  madvise(buffer(index), kBytes, MADV_DONTNEED);
  states_[index].store(State::free, std::memory_order_release);
}

}  // namespace mptune::profiler
