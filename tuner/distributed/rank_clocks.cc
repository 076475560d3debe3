#include "tuner/distributed/rank_clocks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace mptune::tuner {
namespace {

constexpr int kRoundTrips = 50;

Nanoseconds now() {
  return std::chrono::duration_cast<Nanoseconds>(std::chrono::steady_clock::now().time_since_epoch());
}

at::Tensor of_times(const std::vector<std::int64_t>& times) {
  return at::tensor(at::ArrayRef<std::int64_t>(times), at::kLong);
}

std::vector<std::int64_t> times_in(const at::Tensor& times) {
  return {times.const_data_ptr<std::int64_t>(), times.const_data_ptr<std::int64_t>() + times.numel()};
}

/// On rank 0.
void answer(RankStreams& streams, int tag, int rank) {
  for (int i = 0; i < kRoundTrips; ++i) {
    (void)streams.receive(rank, tag, 0);
    streams.send(rank, tag, 0, {of_times({now().count()})});
  }
}

ClockReading ask(RankStreams& streams, int tag) {
  ClockReading best;
  for (int i = 0; i < kRoundTrips; ++i) {
    const Nanoseconds sent = now();
    streams.send(0, tag, 0, {of_times({0})});
    const Nanoseconds first(times_in(streams.receive(0, tag, 0).at(0)).at(0)), received = now();
    const Nanoseconds error = (received - sent) / 2 + Nanoseconds(1);
    if (i == 0 || error < best.error) best = {sent + (received - sent) / 2, first, error};
  }
  return best;
}

}  // namespace

Nanoseconds RankClock::common(Nanoseconds own) const {
  return own + offset + Nanoseconds(std::llround(drift * static_cast<double>((own - reference).count())));
}

RankClock clock_between(const ClockReading& first, const ClockReading& last) {
  RankClock clock{first.first - first.own, 0, first.own, std::max(first.error, last.error)};
  const Nanoseconds moved = (last.first - last.own) - clock.offset, passed = last.own - first.own;
  if (passed <= Nanoseconds(0)) return clock;
  if (std::abs(moved.count()) > (first.error + last.error).count()) {
    clock.drift = static_cast<double>(moved.count()) / static_cast<double>(passed.count());
    return clock;
  }
  // Of two readings of one offset, the one with the smaller error is nearer.
  if (last.error < first.error) clock = {last.first - last.own, 0, last.own, last.error};
  clock.error = std::min(first.error, last.error);
  return clock;
}

ClockReading read_clock(RankStreams& streams, int tag) {
  if (streams.group().rank() > 0) return ask(streams, tag);
  for (int rank = 1; rank < streams.group().size(); ++rank) answer(streams, tag, rank);
  const Nanoseconds own = now();
  return {own, own, Nanoseconds(0)};
}

std::vector<RankClock> exchange_clocks(RankStreams& streams, int tag, const ClockReading& before, const ClockReading& after) {
  const RankClock own = streams.group().rank() == 0 ? RankClock{} : clock_between(before, after);
  std::vector<RankClock> all;
  const std::vector<double> drifts{own.drift};
  const std::vector<std::vector<double>> drift_of = streams.exchange(tag, drifts);
  const std::vector<at::Tensor> times =
      streams.exchange_tensors(tag + 1, of_times({own.offset.count(), own.reference.count(), own.error.count()}));
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    const std::vector<std::int64_t> numbers = times_in(times[rank]);
    all.push_back({Nanoseconds(numbers.at(0)), drift_of[rank].at(0), Nanoseconds(numbers.at(1)), Nanoseconds(numbers.at(2))});
  }
  return all;
}

}  // namespace mptune::tuner
