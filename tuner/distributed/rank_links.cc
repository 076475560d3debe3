#include "tuner/distributed/rank_links.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>
#include <utility>

#include "profiler/base/index.h"
#include "profiler/measure/link_timing.h"
#include "profiler/statistics/samples.h"

namespace mptune::tuner {
namespace {

using profiler::CopyTime;

// Long enough for the receiver and the network's threads to sleep, as they do while a stage waits.
constexpr auto kIdle = std::chrono::milliseconds(3);

constexpr std::int64_t kSmallestBytes = 4 << 10, kAlwaysMeasuredBytes = 1 << 20, kLargestBytes = 16 << 20;
constexpr double kLongestMessageSeconds = 0.1;  // above 1 MiB
constexpr double kLongestSizeSeconds = 0.5;     // all messages of a size
constexpr int kFewestRepeats = 3;

// Kinds of messages; those of a sweep have their size as kind, and RankStreams::exchange() has 0.
constexpr std::int64_t kEmpty = 1, kRequest = 2, kNumber = 3, kBothWays = 4, kEnd = 5;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<at::Tensor> message_of(std::int64_t bytes) {
  return {at::zeros({bytes / 4}, at::kFloat)};
}

/// Messages of one size.
struct Size {
  std::int64_t bytes = 0;
  std::vector<at::Tensor> message;
  double first_s = 0;                ///< there and back, the first time
  std::vector<double> seconds = {};  ///< likewise, later
};

/// This rank's part in what a pair of ranks measures; the other one takes the opposite part at the same time.
class LinkEnd {
 public:
  LinkEnd(RankStreams& streams, int other, int tag, int repeats) : streams_(streams), other_(other), tag_(tag), repeats_(repeats) {}

  /// Rounds of one message of each size, so that other work on these hosts disturbs all sizes alike.
  [[nodiscard]] std::vector<CopyTime> sweep() {
    std::vector<Size> sizes = first_round();
    std::vector<double> empty_s;
    for (int round = 0; round < repeats_; ++round)
      for (Size& size : sizes) {
        if (round >= repeats_for(size.first_s)) continue;
        empty_s.push_back(round_trip_s(kEmpty, {}));
        size.seconds.push_back(round_trip_s(size.bytes, size.message));
      }
    send_request(kEnd);
    half_round_trip_s_ = median(std::move(empty_s)) / 2;
    std::vector<CopyTime> times;
    for (Size& size : sizes) times.push_back({size.bytes, std::max(0.0, median(std::move(size.seconds)) - half_round_trip_s_)});
    return times;
  }
  /// Answers the other's sweep.
  void answer_sweep() {
    while (true) {
      const auto kind = streams_.receive(other_, tag_, kRequest).at(0).item<std::int64_t>();
      if (kind == kEnd) return;
      (void)streams_.receive(other_, tag_, kind);
      send_empty();
    }
  }
  /// Median time of messages both ways, from when this one is sent until both have arrived. `alone`: this end's largest message.
  [[nodiscard]] double both_at_once_s(const CopyTime& alone, bool leads) {
    const int repeats = repeats_for(std::max(alone.seconds, other_number(alone.seconds)));
    const std::vector<at::Tensor> message = message_of(alone.bytes);
    std::vector<double> seconds;
    for (int i = 0; i <= repeats; ++i) {
      start_together(leads);
      seconds.push_back(exchange_s(message));
    }
    seconds.erase(seconds.begin());  // the layouts travelled with it
    return median(std::move(seconds));
  }

 private:
  void send_empty() { streams_.send(other_, tag_, kEmpty, {}); }
  void await_empty() { (void)streams_.receive(other_, tag_, kEmpty); }
  void send_request(std::int64_t kind) { streams_.send(other_, tag_, kRequest, {at::tensor({kind})}); }

  [[nodiscard]] double round_trip_s(std::int64_t kind, const std::vector<at::Tensor>& message) {
    send_request(kind);
    std::this_thread::sleep_for(kIdle);
    const auto start = std::chrono::steady_clock::now();
    streams_.send(other_, tag_, kind, message);
    await_empty();
    return seconds_since(start);
  }
  /// The layouts travel with it. Its times say which sizes, and how many messages of each, are affordable.
  [[nodiscard]] std::vector<Size> first_round() {
    const double empty_s = std::min(round_trip_s(kEmpty, {}), round_trip_s(kEmpty, {}));
    std::vector<Size> sizes;
    for (std::int64_t bytes = kSmallestBytes; bytes <= kLargestBytes; bytes *= 4) {
      if (bytes > kAlwaysMeasuredBytes && 4 * (sizes.back().first_s - empty_s / 2) > kLongestMessageSeconds) break;
      sizes.push_back({.bytes = bytes, .message = message_of(bytes)});
      sizes.back().first_s = round_trip_s(bytes, sizes.back().message);
    }
    return sizes;
  }
  [[nodiscard]] int repeats_for(double message_s) const {
    const double affordable = kLongestSizeSeconds / std::max(message_s, 1e-6);
    return affordable < repeats_ ? std::max(std::min(kFewestRepeats, repeats_), static_cast<int>(affordable)) : repeats_;
  }

  /// The leading end waits until the other one, which begins when it hears of it, has heard of it.
  void start_together(bool leads) {
    std::this_thread::sleep_for(kIdle);
    if (!leads) return await_empty();
    send_empty();
    std::this_thread::sleep_for(std::chrono::duration<double>(half_round_trip_s_));
  }
  [[nodiscard]] double exchange_s(const std::vector<at::Tensor>& message) {
    const auto start = std::chrono::steady_clock::now();
    streams_.send(other_, tag_, kBothWays, message);
    (void)streams_.receive(other_, tag_, kBothWays);
    send_empty();
    await_empty();
    return std::max(0.0, seconds_since(start) - half_round_trip_s_);
  }
  [[nodiscard]] double other_number(double own) {
    streams_.send(other_, tag_, kNumber, {at::full({1}, own, at::kDouble)});
    return streams_.receive(other_, tag_, kNumber).at(0).item<double>();
  }

  RankStreams& streams_;
  const int other_, tag_, repeats_;
  double half_round_trip_s_ = 0;  ///< of an empty message
};

/// The link to the other rank, whose own call measures the one back.
MeasuredRankLink measure_to(RankStreams& streams, int other, int tag, int repeats) {
  const int rank = streams.group().rank();
  LinkEnd end(streams, other, tag, repeats);
  if (rank > other) end.answer_sweep();
  const std::vector<CopyTime> times = end.sweep();
  if (rank < other) end.answer_sweep();
  const LinkCost cost = profiler::fit_link(times);
  return {{rank, other, cost.latency_s, cost.bytes_per_second},
          times.back().bytes,
          times.back().seconds,
          end.both_at_once_s(times.back(), rank < other)};
}

constexpr std::size_t kNumbersOfLink = 6;

std::vector<double> as_numbers(const MeasuredRankLink& link) {
  return {static_cast<double>(link.to), link.latency_s, link.bytes_per_second, static_cast<double>(link.largest_bytes), link.alone_s,
          link.both_at_once_s};
}

MeasuredRankLink link_of_numbers(int from, const double* numbers) {
  return {{from, static_cast<int>(numbers[0]), numbers[1], numbers[2]}, static_cast<std::int64_t>(numbers[3]), numbers[4], numbers[5]};
}

std::vector<MeasuredRankLink> links_of_all(const std::vector<std::vector<double>>& numbers) {
  std::vector<MeasuredRankLink> links;
  for (std::size_t from = 0; from < numbers.size(); ++from)
    for (std::size_t i = 0; i < numbers[from].size(); i += kNumbersOfLink)
      links.push_back(link_of_numbers(static_cast<int>(from), &numbers[from][i]));
  return links;
}

void set_shared(MeasuredRankLink& there, MeasuredRankLink& back) {
  const double both_s = std::max(there.both_at_once_s, back.both_at_once_s);
  const double slower_s = std::max(there.alone_s, back.alone_s), sum_s = there.alone_s + back.alone_s;
  there.both_at_once_s = back.both_at_once_s = both_s;
  there.shared = back.shared = both_s > (slower_s + sum_s) / 2;
}

void compare_directions(std::vector<MeasuredRankLink>& links) {
  for (MeasuredRankLink& there : links)
    for (MeasuredRankLink& back : links)
      if (there.from < there.to && there.from == back.to && there.to == back.from) set_shared(there, back);
}

}  // namespace

std::vector<MeasuredRankLink> measure_rank_links(RankStreams& streams, int tag, int repeats) {
  const int rank = streams.group().rank(), size = streams.group().size();
  std::vector<double> own;
  for (int low = 0; low < size; ++low)
    for (int high = low + 1; high < size; ++high) {
      if (rank == low || rank == high)
        std::ranges::copy(as_numbers(measure_to(streams, low + high - rank, tag, repeats)), std::back_inserter(own));
      (void)streams.exchange(tag, {});  // the others wait until the pair is done
    }
  std::vector<MeasuredRankLink> links = links_of_all(streams.exchange(tag, own));
  compare_directions(links);
  return links;
}

}  // namespace mptune::tuner
