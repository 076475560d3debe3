#include "tuner/runtime/between/rank_watch.h"

#include <ATen/ATen.h>

#include <chrono>
#include <utility>

namespace mptune::tuner {
namespace {

constexpr std::chrono::milliseconds kBetweenBeats{250};

}  // namespace

RankWatch::RankWatch(RankGroup& group, int tag, std::vector<int> others, std::function<void(std::exception_ptr)> lost)
    : group_(group), tag_(tag), others_(std::move(others)), lost_(std::move(lost)) {
  if (others_.empty()) return;
  threads_.emplace_back([this] { beat(); });
  for (const int other : others_) threads_.emplace_back([this, other] { watch(other); });
}

RankWatch::~RankWatch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RankWatch::send_to_all(bool goes_on) {
  for (const int other : others_) group_.send(other, tag_, at::full({1}, goes_on ? 1 : 0, at::kByte));
}

void RankWatch::beat() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kBetweenBeats, [this] { return stop_.load(); })) {
    lock.unlock();
    send_to_all(true);
    lock.lock();
  }
  send_to_all(false);
}

// It stops with the other's next byte.
void RankWatch::watch(int other) {
  const at::Tensor byte = at::ones({1}, at::kByte);
  std::exception_ptr lost;
  try {
    while (!stop_ && byte.item<std::uint8_t>() != 0) group_.receive(other, tag_, byte);
  } catch (...) {
    lost = std::current_exception();
  }
  if (lost) lost_(std::move(lost));  // not in the handler, which holds the error while another thread reads it
}

}  // namespace mptune::tuner
