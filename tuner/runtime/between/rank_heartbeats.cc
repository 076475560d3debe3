#include "tuner/runtime/between/rank_heartbeats.h"

#include <chrono>
#include <exception>
#include <utility>

#include "tuner/runtime/between/patient_store.h"

namespace mptune::tuner {
namespace {

constexpr int kSecondsBetweenBeats = 1;

std::string beats_of(int rank) {
  return "beats of rank " + std::to_string(rank);
}

}  // namespace

RankHeartbeats::RankHeartbeats(c10::intrusive_ptr<c10d::Store> store, int rank, std::function<void(int)> silent)
    : store_(std::move(store)), rank_(rank), silent_(std::move(silent)), thread_([this] { loop(); }) {}

RankHeartbeats::~RankHeartbeats() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

RankHeartbeats::Wait::Wait(RankHeartbeats& beats, std::vector<int> ranks) : beats_(beats) {
  const std::lock_guard lock(beats_.mutex_);
  number_ = beats_.next_wait_++;
  beats_.waits_.emplace(number_, std::move(ranks));
}

RankHeartbeats::Wait::~Wait() {
  const std::lock_guard lock(beats_.mutex_);
  beats_.waits_.erase(number_);
}

void RankHeartbeats::loop() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::seconds(kSecondsBetweenBeats), [this] { return stop_; })) {
    const Waits waits = waits_;
    lock.unlock();
    if (!beat_and_look(waits)) return;
    lock.lock();
  }
}

bool RankHeartbeats::beat_and_look(const Waits& waits) {
  std::erase_if(heard_, [&](const auto& heard) { return !waits.contains(heard.first.first); });
  try {
    (void)store_->add(beats_of(rank_), 1);
    for (const auto& [number, ranks] : waits)
      for (const int other : ranks) count({number, other}, store_->add(beats_of(other), 0));
  } catch (const StoreSilent&) {
    for (const auto& [number, ranks] : waits)
      for (const int other : ranks) count({number, other}, std::nullopt);
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

// Looks are counted, not the time by the clock: while this process was stopped itself, the others may have been as well.
void RankHeartbeats::count(std::pair<std::int64_t, int> wait_and_rank, std::optional<std::int64_t> beats) {
  Heard& heard = heard_[wait_and_rank];
  heard.seconds_since = beats.value_or(heard.beats) == heard.beats ? heard.seconds_since + kSecondsBetweenBeats : 0;
  heard.beats = beats.value_or(heard.beats);
  if (heard.seconds_since >= kSilentSeconds) silent_(wait_and_rank.second);
}

}  // namespace mptune::tuner
