#include "tuner/runtime/between/link_end.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "profiler/trace/statistics/samples.h"
#include "tuner/runtime/between/tensor_text.h"

namespace mptune::tuner {
namespace {

using profiler::CopyTime;

// Long enough for the receiver and the network's threads to sleep, as they do while a stage waits.
constexpr auto kIdle = std::chrono::milliseconds(3);

constexpr std::int64_t kSmallestBytes = 4 << 10, kAlwaysMeasuredBytes = 1 << 20;
constexpr double kLongestMessageSeconds = 0.1;  // above 1 MiB
constexpr double kLongestSizeSeconds = 0.5;     // all messages of a size
constexpr int kFewestRepeats = 3;

// Kinds of messages; those of a sweep have their size as kind, and RankStreams::exchange() has 0.
constexpr std::int64_t kEmpty = 1, kRequest = 2, kNumber = 3, kBothWays = 4, kEnd = 5;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
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
  LinkEnd(RankStreams& streams, int other, int tag, MessageWay& way, int repeats)
      : streams_(streams), other_(other), tag_(tag), way_(way), repeats_(repeats) {}

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
      const std::int64_t kind = streams_.receive_numbers(other_, tag_, kRequest, 1)[0];
      if (kind == kEnd) return;
      way_.receive(kind);
      send_empty();
    }
  }
  /// Median time of messages both ways, from when this one is sent until both have arrived. `alone`: this end's largest message.
  [[nodiscard]] double both_at_once_s(const CopyTime& alone, bool leads) {
    const int repeats = repeats_for(std::max(alone.seconds, other_number(alone.seconds)));
    const std::vector<at::Tensor> message = way_.message_of(alone.bytes);
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
  void send_request(std::int64_t kind) { streams_.send_numbers(other_, tag_, kRequest, {kind}); }

  [[nodiscard]] double round_trip_s(std::int64_t kind, const std::vector<at::Tensor>& message) {
    send_request(kind);
    std::this_thread::sleep_for(kIdle);
    const auto start = std::chrono::steady_clock::now();
    way_.send(kind, message);
    await_empty();
    return seconds_since(start);
  }
  /// The layouts travel with it. Its times say which sizes, and how many messages of each, are affordable.
  [[nodiscard]] std::vector<Size> first_round() {
    const double empty_s = std::min(round_trip_s(kEmpty, {}), round_trip_s(kEmpty, {}));
    std::vector<Size> sizes;
    for (std::int64_t bytes = kSmallestBytes; bytes <= way_.largest_bytes(); bytes *= bytes < kAlwaysMeasuredBytes ? 4 : 2) {
      if (bytes > kAlwaysMeasuredBytes && 2 * (sizes.back().first_s - empty_s / 2) > kLongestMessageSeconds) break;
      sizes.push_back({.bytes = bytes, .message = way_.message_of(bytes)});
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
    way_.send(kBothWays, message);
    way_.receive(kBothWays);
    send_empty();
    await_empty();
    return std::max(0.0, seconds_since(start) - half_round_trip_s_);
  }
  [[nodiscard]] double other_number(double own) {
    streams_.send(other_, tag_, kNumber, {at::full({1}, own, at::kDouble)});
    const std::vector<double> numbers = numbers_in(streams_.receive_one(other_, tag_, kNumber));
    if (numbers.size() != 1) refuse_message();
    return numbers[0];
  }

  RankStreams& streams_;
  const int other_, tag_;
  MessageWay& way_;
  const int repeats_;
  double half_round_trip_s_ = 0;  ///< of an empty message
};

}  // namespace

MeasuredEnd measure_link(RankStreams& streams, int other, int tag, MessageWay& way, int repeats) {
  const bool leads = streams.group().rank() < other;
  LinkEnd end(streams, other, tag, way, repeats);
  if (!leads) end.answer_sweep();
  const std::vector<CopyTime> times = end.sweep();
  if (leads) end.answer_sweep();
  return {profiler::fit_link(times), times.back(), end.both_at_once_s(times.back(), leads)};
}

}  // namespace mptune::tuner
