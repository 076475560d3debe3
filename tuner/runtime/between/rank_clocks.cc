#include "tuner/runtime/between/rank_clocks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>

#include "tuner/runtime/between/tensor_text.h"

namespace mptune::tuner {
namespace {

constexpr int kClockRoundTrips = 100;
constexpr std::int64_t kQuestion = 0, kAnswer = 1;
constexpr double kDriftOfClocks = 1e-4;  // quartzes of computers differ by less

/// On rank 0: says when each message of another rank came, and when the answer went.
void tell_time(RankStreams& streams, int tag, int rank, const OwnClock& now) {
  for (int i = 0; i < kClockRoundTrips; ++i) {
    (void)streams.receive(rank, tag, kQuestion);
    const Nanoseconds came = now();
    streams.send_numbers(rank, tag, kAnswer, {came.count(), now().count()});
  }
}

ClockReading ask_once(RankStreams& streams, int tag, const OwnClock& now) {
  const Nanoseconds asked = now();
  streams.send(0, tag, kQuestion, {});
  const std::vector<std::int64_t> times = streams.receive_numbers(0, tag, kAnswer, 2);
  const Nanoseconds answered = now();
  const Nanoseconds came{times[0]}, went{times[1]};
  // The message came after it was sent, and so did the answer: these are the bounds of the offset.
  const Nanoseconds most = came - asked, least = went - answered;
  return {asked + (answered - asked) / 2, least + (most - least) / 2, (most - least) / 2 + Nanoseconds(1)};
}

ClockReading ask_time(RankStreams& streams, int tag, const OwnClock& now) {
  ClockReading best = ask_once(streams, tag, now);
  for (int i = 1; i < kClockRoundTrips; ++i) {
    const ClockReading reading = ask_once(streams, tag, now);
    if (reading.error < best.error) best = reading;
  }
  return best;
}

double as_number(Nanoseconds time) {
  return static_cast<double>(time.count());
}

}  // namespace

Nanoseconds steady_now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

ClockReading read_clocks(RankStreams& streams, int tag, const OwnClock& now) {
  if (streams.group().rank() > 0) return ask_time(streams, tag, now);
  for (int rank = 1; rank < streams.group().size(); ++rank) tell_time(streams, tag, rank, now);
  return {.own = now()};
}

RankClock clock_between(const ClockReading& first, const ClockReading& last) {
  const Nanoseconds passed = last.own - first.own, moved = last.offset - first.offset, doubt = first.error + last.error;
  const bool drift_shows = kDriftOfClocks * as_number(passed) >= as_number(doubt) || std::chrono::abs(moved) > doubt;
  if (passed > Nanoseconds(0) && drift_shows)
    return {first.own, {first.offset, as_number(moved) / as_number(passed)}, std::max(first.error, last.error) + Nanoseconds(1)};
  const bool first_is_cleaner = first.error <= last.error;
  const ClockReading &cleaner = first_is_cleaner ? first : last, &other = first_is_cleaner ? last : first;
  return {cleaner.own, {cleaner.offset, 0}, std::max(cleaner.error, other.error + std::chrono::abs(moved))};
}

std::vector<RankClock> exchange_clocks(RankStreams& streams, int tag, const RankClock& own) {
  const at::Tensor times = at::empty({3}, at::kLong);
  auto* const numbers = times.data_ptr<std::int64_t>();
  numbers[0] = own.reference.count();
  numbers[1] = own.since_reference.offset.count();
  numbers[2] = own.error.count();
  const std::vector<std::vector<double>> drifts = streams.exchange(tag, {own.since_reference.drift});
  std::vector<RankClock> all;
  for (const at::Tensor& of_rank : streams.exchange_tensors(tag + 1, times)) {
    const std::vector<std::int64_t> given = whole_numbers_in(of_rank);
    if (given.size() != 3) refuse_message();
    all.push_back({Nanoseconds(given[0]), {Nanoseconds(given[1]), drifts[all.size()].at(0)}, Nanoseconds(given[2])});
  }
  return all;
}

}  // namespace mptune::tuner
