#include "tuner/distributed/rank_links.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "profiler/base/index.h"
#include "profiler/measure/link_timing.h"
#include "profiler/statistics/samples.h"

namespace mptune::tuner {
namespace {

using profiler::CopyTime;
using profiler::RankLink;

constexpr std::int64_t kSmallest = 4 << 10, kLargest = 16 << 20, kMiB = 1 << 20;
constexpr double kLongest = 0.1;  // of a message above 1 MiB [s]
constexpr double kSharedFrom = 1.5;
constexpr int kRepeats = 7;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Messages between this rank and another one, which takes the same steps from the other side.
class Pair {
 public:
  Pair(RankStreams& streams, int other, int tag) : streams_(streams), other_(other), tag_(tag) {}

  /// Median time until the answer to a message of this size has come [s]. The first one, with which the layout travels, does not count.
  double round_trip(std::int64_t bytes) {
    const at::Tensor message = at::zeros({bytes}, at::kByte);
    std::vector<double> times;
    for (int i = 0; i <= kRepeats; ++i) {
      const double began = now_s();
      streams_.send(other_, tag_, bytes, {message});
      (void)streams_.receive(other_, tag_, 0);
      if (i > 0) times.push_back(now_s() - began);
    }
    return median(std::move(times));
  }
  void answer(std::int64_t bytes) {
    for (int i = 0; i <= kRepeats; ++i) {
      (void)streams_.receive(other_, tag_, bytes);
      streams_.send(other_, tag_, 0, {at::zeros({1}, at::kByte)});
    }
  }
  /// Median time of two messages at once, one each way.
  double both_ways(std::int64_t bytes) {
    const at::Tensor message = at::zeros({bytes}, at::kByte);
    std::vector<double> times;
    for (int i = 0; i <= kRepeats; ++i) {
      const double began = now_s();
      streams_.send(other_, tag_, bytes, {message});
      (void)streams_.receive(other_, tag_, bytes);
      if (i > 0) times.push_back(now_s() - began);
    }
    return median(std::move(times));
  }
  /// Whether the sweep goes on, as the sending side says.
  bool tell(bool next) {
    streams_.send(other_, tag_ + 1, 0, {at::full({1}, next ? 1.0 : 0.0, at::kDouble)});
    return next;
  }
  bool told() { return streams_.receive(other_, tag_ + 1, 0).at(0).item<double>() != 0; }
  /// Gives the other one a number, and returns its.
  double exchange(double own) {
    streams_.send(other_, tag_ + 1, 0, {at::full({1}, own, at::kDouble)});
    return streams_.receive(other_, tag_ + 1, 0).at(0).item<double>();
  }

 private:
  RankStreams& streams_;
  int other_, tag_;
};

RankLink fitted(int from, int to, std::vector<CopyTime> times, double short_trip_s) {
  for (CopyTime& time : times) time.seconds = std::max(1e-9, time.seconds - short_trip_s / 2);
  const LinkCost cost = profiler::fit_link(times);
  return {from, to, cost.latency_s, cost.bytes_per_second};
}

/// On the sending side.
RankLink sweep(Pair& pair, int from, int to) {
  const double short_trip_s = pair.round_trip(1);
  std::vector<CopyTime> times;
  for (std::int64_t bytes = kSmallest; bytes <= kLargest; bytes *= 4) {
    times.push_back({bytes, pair.round_trip(bytes)});
    const bool next = bytes < kLargest && (bytes * 4 <= kMiB || 4 * times.back().seconds <= kLongest);
    if (!pair.tell(next)) break;
  }
  return fitted(from, to, times, short_trip_s);
}

void sweep_from_other(Pair& pair) {
  pair.answer(1);
  for (std::int64_t bytes = kSmallest; bytes <= kLargest; bytes *= 4) {
    pair.answer(bytes);
    if (!pair.told()) break;
  }
}

/// A message that is long enough for its bytes to matter, and takes no longer than the longest.
std::int64_t size_for(double bytes_per_second) {
  return std::clamp(static_cast<std::int64_t>(kLongest * bytes_per_second), kMiB / 4, kLargest);
}

/// The link from this rank to another one, which measures the one back at the same call.
RankLink measured(RankStreams& streams, int other, int tag) {
  const int rank = streams.group().rank();
  Pair pair(streams, other, tag);
  if (rank > other) sweep_from_other(pair);
  RankLink link = sweep(pair, rank, other);
  if (rank < other) sweep_from_other(pair);
  const double back = pair.exchange(link.bytes_per_second);
  const std::int64_t bytes = size_for(std::min(link.bytes_per_second, back));
  const double both_s = pair.both_ways(bytes), alone_s = link.latency_s + static_cast<double>(bytes) / link.bytes_per_second;
  const double longest_alone_s = std::max(alone_s, pair.exchange(alone_s));
  link.shared = both_s + pair.exchange(both_s) >= 2 * kSharedFrom * longest_alone_s;
  return link;
}

}  // namespace

std::vector<RankLink> measure_rank_links(RankStreams& streams, int tag) {
  const int rank = streams.group().rank(), size = streams.group().size();
  std::vector<double> own;  // to, latency, bandwidth, whether it is shared
  for (int low = 0; low < size; ++low)
    for (int high = low + 1; high < size; ++high) {
      if (rank == low || rank == high) {
        const RankLink link = measured(streams, rank == low ? high : low, tag);
        own.insert(own.end(), {static_cast<double>(link.to), link.latency_s, link.bytes_per_second, link.shared ? 1.0 : 0.0});
      }
      (void)streams.exchange(tag + 1, std::vector<double>{0});  // the others wait until the pair is done
    }
  std::vector<RankLink> links;
  const std::vector<std::vector<double>> all = streams.exchange(tag + 2, own);
  for (int from = 0; from < size; ++from) {
    const std::vector<double>& numbers = all[as_index(from)];
    for (std::size_t i = 0; i < numbers.size(); i += 4)
      links.push_back({from, static_cast<int>(numbers[i]), numbers[i + 1], numbers[i + 2], numbers[i + 3] > 0});
  }
  return links;
}

}  // namespace mptune::tuner
