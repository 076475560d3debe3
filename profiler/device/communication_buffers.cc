#include "profiler/device/communication_buffers.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <mutex>

namespace mptune::profiler {

namespace {

/// Buffers of one shape that may wait for their readers while another one is made: with two a copy overlaps the work on the last two.
constexpr int kWaiting = 2;

}  // namespace

struct CommunicationBuffers::Shared {
  struct Free {
    at::Tensor memory;
    MomentPtr since;
  };
  std::shared_ptr<Device> destination;
  std::mutex mutex;
  std::vector<Free> free;  ///< the longest free first
  bool closed = false;

  void give_back(at::Tensor memory) noexcept {
    try {
      MomentPtr since = destination->now();
      const std::lock_guard lock(mutex);
      if (!closed) free.push_back({std::move(memory), std::move(since)});
    } catch (...) {
      // A device that has failed can't say when its readers are done: such memory is not used again.
    }
  }

  Free take_free(const at::Tensor& like) {
    const std::lock_guard lock(mutex);
    const auto fits = [&](const Free& buffer) {
      return buffer.memory.sizes() == like.sizes() && buffer.memory.scalar_type() == like.scalar_type();
    };
    // The one that was used last is the one that caches still hold.
    auto found = std::find_if(free.rbegin(), free.rend(), [&](const Free& buffer) { return fits(buffer) && reached(buffer.since); });
    if (found == free.rend()) {
      if (std::count_if(free.begin(), free.end(), fits) < kWaiting) return {};
      found = std::make_reverse_iterator(std::next(std::find_if(free.begin(), free.end(), fits)));
    }
    Free buffer = std::move(*found);
    free.erase(std::next(found).base());
    return buffer;
  }
};

CommunicationBuffers::CommunicationBuffers(std::shared_ptr<Device> destination) : shared_(std::make_shared<Shared>()) {
  shared_->destination = std::move(destination);
}

CommunicationBuffers::~CommunicationBuffers() {
  std::vector<Shared::Free> freed;
  const std::lock_guard lock(shared_->mutex);
  shared_->closed = true;
  freed.swap(shared_->free);
}

CommunicationBuffers::Buffer CommunicationBuffers::take(const at::Tensor& tensor) {
  auto buffer = shared_->take_free(tensor);
  if (!buffer.memory.defined()) {
    buffer.memory = shared_->destination->empty_like(tensor);
    buffer.since = shared_->destination->now();
  }
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
