#include "tuner/runtime/between/rank_links.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "profiler/base/index.h"
#include "tuner/runtime/between/device_connections.h"
#include "tuner/runtime/between/link_end.h"
#include "tuner/runtime/between/tensor_text.h"

namespace mptune::tuner {
namespace {

constexpr std::int64_t kLargestOfHosts = 16 << 20;

/// Through host memory, packed and unpacked.
class HostWay final : public MessageWay {
 public:
  HostWay(RankStreams& streams, int other, int tag) : streams_(streams), other_(other), tag_(tag) {}
  [[nodiscard]] std::int64_t largest_bytes() const override { return kLargestOfHosts; }
  [[nodiscard]] std::vector<at::Tensor> message_of(std::int64_t bytes) override { return {at::zeros({bytes / 4}, at::kFloat)}; }
  void send(std::int64_t kind, const std::vector<at::Tensor>& message) override { streams_.send(other_, tag_, kind, message); }
  void receive(std::int64_t kind) override { (void)streams_.receive(other_, tag_, kind); }

 private:
  RankStreams& streams_;
  int other_, tag_;
};

/// From GPU to GPU, announced through host memory.
class DirectWay final : public MessageWay {
 public:
  DirectWay(RankStreams& streams, int other, int tag, Device& device, profiler::GpuCommunicator& out, profiler::GpuCommunicator& back,
            std::int64_t largest_bytes)
      : streams_(streams), other_(other), tag_(tag), device_(device), out_(out), back_(back), largest_bytes_(largest_bytes) {}
  [[nodiscard]] std::int64_t largest_bytes() const override { return largest_bytes_; }
  [[nodiscard]] std::vector<at::Tensor> message_of(std::int64_t bytes) override {
    return {device_.empty_like(at::empty({bytes / 4}, at::TensorOptions(at::kFloat).device(at::kMeta)))};
  }
  void send(std::int64_t kind, const std::vector<at::Tensor>& message) override {
    const TensorLayout layout = layout_of(message);
    out_.send(1, flat_tensors(message, layout));
    streams_.announce(other_, tag_, kind, layout);
  }
  void receive(std::int64_t kind) override {
    wait_for(back_.receive(0, flat_likes(streams_.receive_announced(other_, tag_, kind).layout)).there);
  }

 private:
  RankStreams& streams_;
  int other_, tag_;
  Device& device_;
  profiler::GpuCommunicator &out_, &back_;
  std::int64_t largest_bytes_;
};

MeasuredRankLink link_of(int from, int to, const MeasuredEnd& end) {
  return {{from, to, end.cost.latency_s, end.cost.bytes_per_second}, end.largest.bytes, end.largest.seconds, end.both_at_once_s};
}

constexpr std::size_t kNumbersOfLink = 8;
constexpr double kMostOfAnything = 1e18;  // seconds, bytes, bytes per second

std::vector<double> as_numbers(const MeasuredRankLink& link) {
  return {static_cast<double>(link.from),
          static_cast<double>(link.to),
          link.latency_s,
          link.bytes_per_second,
          static_cast<double>(link.largest_bytes),
          link.alone_s,
          link.both_at_once_s,
          static_cast<double>(link.communicator_bytes)};
}

MeasuredRankLink link_of_numbers(const double* numbers) {
  return {{.from = static_cast<int>(numbers[0]),
           .to = static_cast<int>(numbers[1]),
           .latency_s = numbers[2],
           .bytes_per_second = numbers[3],
           .communicator_bytes = static_cast<std::int64_t>(numbers[7])},
          static_cast<std::int64_t>(numbers[4]),
          numbers[5],
          numbers[6]};
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

/// `ends`: how many ranks or devices there are.
std::vector<MeasuredRankLink> links_of_all(const std::vector<std::vector<double>>& numbers, int ends) {
  std::vector<MeasuredRankLink> links;
  for (const std::vector<double>& own : numbers) {
    if (own.size() % kNumbersOfLink != 0) refuse_message();
    for (std::size_t i = 0; i < own.size(); i += kNumbersOfLink) {
      const auto is_end = [&](double number) { return number >= 0 && number < ends; };
      const auto is_quantity = [](double number) { return number >= 0 && number <= kMostOfAnything; };
      if (!is_end(own[i]) || !is_end(own[i + 1]) || !std::all_of(&own[i] + 2, &own[i] + kNumbersOfLink, is_quantity)) refuse_message();
      links.push_back(link_of_numbers(&own[i]));
    }
  }
  std::ranges::sort(links, {}, [](const MeasuredRankLink& link) { return std::pair(link.from, link.to); });
  compare_directions(links);
  return links;
}

}  // namespace

std::vector<MeasuredRankLink> measure_rank_links(RankStreams& streams, int tag, int repeats) {
  const int rank = streams.group().rank(), size = streams.group().size();
  std::vector<double> own;
  for (int low = 0; low < size; ++low)
    for (int high = low + 1; high < size; ++high) {
      if (rank == low || rank == high) {
        const int other = low + high - rank;
        HostWay way(streams, other, tag);
        std::ranges::copy(as_numbers(link_of(rank, other, measure_link(streams, other, tag, way, repeats))), std::back_inserter(own));
      }
      (void)streams.exchange(tag, {});  // the others wait until the pair is done
    }
  return links_of_all(streams.exchange_lists(tag, own), size);
}

std::vector<MeasuredRankLink> measure_direct_links(RankStreams& streams, const std::vector<std::shared_ptr<Device>>& devices, int tag,
                                                   const profiler::GpuConnector* connector, int repeats, std::int64_t largest_bytes) {
  DeviceConnections connections(streams, devices, tag, connector);
  const auto rank_of = [&](int device) { return devices[as_index(device)]->spec().rank; };
  const int rank = streams.group().rank(), count = static_cast<int>(devices.size());
  for (const auto& device : devices)
    if (device->spec().rank == rank) (void)device->available_bytes();
  (void)streams.exchange(tag, {});  // now no rank keeps unused memory of a GPU that another one measures
  std::vector<double> own;
  for (int low = 0; low < count; ++low)
    for (int high = low + 1; high < count; ++high) {
      if (rank_of(low) == rank_of(high) || !connections.can_connect({low, high})) continue;
      if (rank == rank_of(low) || rank == rank_of(high)) {
        const int here = rank == rank_of(low) ? low : high, there = low + high - here;
        Device& device = *devices[as_index(here)];
        const std::int64_t available = device.available_bytes();
        const auto up = connections.connect_direction(low, high), down = connections.connect_direction(high, low);
        const std::int64_t taken = std::max<std::int64_t>(0, available - device.available_bytes());
        DirectWay way(streams, rank_of(there), tag, device, here == low ? *up : *down, here == low ? *down : *up, largest_bytes);
        MeasuredRankLink link = link_of(here, there, measure_link(streams, rank_of(there), tag, way, repeats));
        link.communicator_bytes = taken / 2;
        std::ranges::copy(as_numbers(link), std::back_inserter(own));
      }
      (void)streams.exchange(tag, {});
    }
  return links_of_all(streams.exchange_lists(tag, own), count);
}

}  // namespace mptune::tuner
