#include "profiler/device/communication_buffers.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <mutex>

namespace mptune::profiler {

namespace {

/// Buffers of one shape that may wait for their readers before another is made: with two, a copy overlaps the work on the last two.
constexpr int kWaiting = 2;
/// Unused memory that is kept in any case: making small tensors takes longer than they are worth.
constexpr std::size_t kSpare = std::size_t{1} << 20;

}  // namespace

struct CommunicationBuffers::Shared {
  struct Free {
    at::Tensor memory;
    MomentPtr since;
  };
  std::shared_ptr<Device> destination;
  std::mutex mutex;
  std::vector<Free> free;  ///< the longest free first
  std::size_t free_bytes = 0;
  std::size_t lent_bytes = 0;
  std::size_t most_lent_bytes = 0;
  bool closed = false;

  void give_back(at::Tensor memory) noexcept {
    const std::size_t bytes = memory.nbytes();
    try {
      MomentPtr since = destination->now();
      const std::lock_guard lock(mutex);
      lent_bytes -= bytes;
      if (closed) return;
      free.push_back({std::move(memory), std::move(since)});
      free_bytes += bytes;
    } catch (...) {
      // A device that has failed can't say when its readers are done: memory that they may still read is not used again.
    }
  }

  void lend(std::size_t bytes) {
    const std::lock_guard lock(mutex);
    lent_bytes += bytes;
    most_lent_bytes = std::max(most_lent_bytes, lent_bytes);
  }

  /// Takes buffers whose readers are done, the longest free first, until `left` bytes are left.
  std::vector<Free> take_unused(std::size_t left) {
    const std::lock_guard lock(mutex);
    std::vector<Free> unused;
    std::erase_if(free, [&](Free& buffer) {
      if (free_bytes <= left || !reached(buffer.since)) return false;
      free_bytes -= buffer.memory.nbytes();
      unused.push_back(std::move(buffer));
      return true;
    });
    return unused;
  }

  /// Frees what is kept for other shapes, so that `bytes` more stay within what was ever lent at once.
  void make_room(std::size_t bytes) {
    std::size_t left = kSpare;
    {
      const std::lock_guard lock(mutex);
      left += most_lent_bytes - std::min(most_lent_bytes, lent_bytes + bytes);
    }
    (void)take_unused(left);
  }

  Free take_free(const at::Tensor& like) {
    const std::lock_guard lock(mutex);
    const auto fits = [&](const Free& buffer) {
      return buffer.memory.sizes() == like.sizes() && buffer.memory.scalar_type() == like.scalar_type();
    };
    // The buffer that was used last is the one that caches still hold.
    auto found = std::find_if(free.rbegin(), free.rend(), [&](const Free& buffer) { return fits(buffer) && reached(buffer.since); });
    if (found == free.rend()) {
      if (std::count_if(free.begin(), free.end(), fits) < kWaiting) return {};
      found = std::make_reverse_iterator(std::next(std::find_if(free.begin(), free.end(), fits)));
    }
    Free buffer = std::move(*found);
    free.erase(std::next(found).base());
    free_bytes -= buffer.memory.nbytes();
    return buffer;
  }
};

CommunicationBuffers::CommunicationBuffers(std::shared_ptr<Device> destination) : shared_(std::make_shared<Shared>()) {
  shared_->destination = std::move(destination);
  short_of_memory_ = shared_->destination->when_short_of_memory([shared = std::weak_ptr(shared_)] {
    if (const auto open = shared.lock()) (void)open->take_unused(0);
  });
}

CommunicationBuffers::~CommunicationBuffers() {
  short_of_memory_.reset();
  std::vector<Shared::Free> freed;
  const std::lock_guard lock(shared_->mutex);
  shared_->closed = true;
  freed.swap(shared_->free);
}

CommunicationBuffers::Buffer CommunicationBuffers::take(const at::Tensor& tensor) {
  auto buffer = shared_->take_free(tensor);
  if (!buffer.memory.defined()) {
    shared_->make_room(tensor.nbytes());
    buffer.memory = shared_->destination->empty_like(tensor);
    buffer.since = shared_->destination->now();
  }
  shared_->lend(buffer.memory.nbytes());
  void* data = buffer.memory.data_ptr();
  const auto options = buffer.memory.options();
  const auto sizes = buffer.memory.sizes().vec();
  at::Tensor lent =
      at::for_blob(data, sizes)
          .deleter([shared = shared_, memory = std::move(buffer.memory)](void*) mutable { shared->give_back(std::move(memory)); })
          .options(options)
          .target_device(options.device())
          .make_tensor();
  return {std::move(lent), std::move(buffer.since)};
}

}  // namespace mptune::profiler
