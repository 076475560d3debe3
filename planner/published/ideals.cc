#include "planner/published/ideals.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr std::size_t kBits = 64;

std::size_t words_for(std::size_t bits) {
  return (bits + kBits - 1) / kBits;
}

bool test_bit(const std::uint64_t* bits, int index) {
  return (bits[as_index(index) / kBits] >> (as_index(index) % kBits) & 1U) != 0;
}

void put_bit(std::uint64_t* bits, int index, bool value) {
  const std::uint64_t bit = std::uint64_t{1} << (as_index(index) % kBits);
  std::uint64_t& word = bits[as_index(index) / kBits];
  word = value ? word | bit : word & ~bit;
}

}  // namespace

Ideals::Ideals(const LoadProblem& problem)
    : problem_(problem), words_(words_for(problem.groups.size())), stride_(words_ + words_for(problem.nets.size())) {
  bits_.assign(stride_, 0);
  sums_.emplace_back();
  nets_.assign(problem.nets.size() * words_, 0);
  for (std::size_t net = 0; net < problem.nets.size(); ++net)
    for (const int group : problem.nets[net].groups) put_bit(nets_.data() + net * words_, group, true);
}

bool Ideals::holds(int ideal, int group) const {
  return test_bit(members(ideal), group);
}

bool Ideals::subset(int ideal, int of) const {
  const std::uint64_t* inner = members(ideal);
  const std::uint64_t* outer = members(of);
  for (std::size_t word = 0; word < words_; ++word)
    if ((inner[word] & ~outer[word]) != 0) return false;
  return true;
}

std::vector<int> Ideals::open(int ideal) const {
  std::vector<int> groups;
  for (int group = 0; group < problem_.size(); ++group) {
    const auto& before = problem_.before[as_index(group)];
    if (!holds(ideal, group) && std::ranges::all_of(before, [&](int other) { return holds(ideal, other); })) groups.push_back(group);
  }
  return groups;
}

std::vector<int> Ideals::last(int ideal) const {
  std::vector<int> groups;
  for (int group = 0; group < problem_.size(); ++group) {
    const auto& after = problem_.after[as_index(group)];
    if (holds(ideal, group) && std::ranges::none_of(after, [&](int other) { return holds(ideal, other); })) groups.push_back(group);
  }
  return groups;
}

std::int64_t Ideals::copy_ns(int ideal, int of) const {
  std::int64_t sum = sums(ideal).cut_ns + sums(of).cut_ns;
  const std::uint64_t* inner = members(ideal);
  const std::uint64_t* outer = members(of);
  for (std::size_t word = words_; word < stride_; ++word) {
    for (std::uint64_t both = inner[word] & outer[word]; both != 0; both &= both - 1) {
      const std::size_t net = (word - words_) * kBits + as_index(std::countr_zero(both));
      bool used = false;
      for (std::size_t w = 0; w < words_ && !used; ++w) used = (nets_[net * words_ + w] & outer[w] & ~inner[w]) != 0;
      sum -= (used ? 1 : 2) * problem_.nets[net].copy_ns;
    }
  }
  return sum;
}

int Ideals::flip(int ideal, int group) {
  const std::size_t from = as_index(ideal) * stride_;
  const std::size_t to = bits_.size();
  bits_.resize(to + stride_);
  std::copy_n(bits_.begin() + static_cast<std::ptrdiff_t>(from), stride_, bits_.begin() + static_cast<std::ptrdiff_t>(to));
  std::uint64_t* set = bits_.data() + to;
  IdealSums sum = sums(ideal);
  const bool add = !test_bit(set, group);
  put_bit(set, group, add);
  const LoadGroup& cost = problem_.groups[as_index(group)];
  const int sign = add ? 1 : -1;
  sum.device_ns += sign * cost.device_ns;
  sum.host_ns += sign * cost.host_ns;
  sum.bytes += sign * cost.bytes;
  sum.groups += sign;
  sum.host_only += cost.device_can ? 0 : sign;
  for (const int net : problem_.nets_of[as_index(group)]) {
    const std::uint64_t* ends = nets_.data() + as_index(net) * words_;
    bool in = false;
    bool out = false;
    for (std::size_t word = 0; word < words_; ++word) {
      in = in || (ends[word] & set[word]) != 0;
      out = out || (ends[word] & ~set[word]) != 0;
    }
    const std::int64_t copy_ns = problem_.nets[as_index(net)].copy_ns;
    sum.cut_ns += (in && out ? copy_ns : 0) - (test_bit(set + words_, net) ? copy_ns : 0);
    put_bit(set + words_, net, in && out);
  }
  sums_.push_back(sum);
  return size() - 1;
}

bool Ideals::add_all(std::int64_t most, const std::function<bool()>& stop) {
  // The groups are numbered topologically. An ideal without its last group is an ideal, so each is made once, from that one.
  std::vector<std::vector<int>> frontier = {open(0)};
  for (int ideal = 0; ideal < size(); ++ideal) {
    const std::vector<int> addable = std::move(frontier[as_index(ideal)]);
    for (std::size_t i = 0; i < addable.size(); ++i) {
      if (size() >= most || (size() % 4096 == 0 && stop && stop())) return false;
      const int made = flip(ideal, addable[i]);
      std::vector<int> next(addable.begin() + static_cast<std::ptrdiff_t>(i) + 1, addable.end());
      for (const int group : problem_.after[as_index(addable[i])]) {
        const auto& before = problem_.before[as_index(group)];
        if (std::ranges::all_of(before, [&](int other) { return holds(made, other); })) next.push_back(group);
      }
      std::ranges::sort(next);
      frontier.push_back(std::move(next));
    }
  }
  return true;
}

void Ideals::sort() {
  std::vector<int> order(sums_.size());
  std::iota(order.begin(), order.end(), 0);
  const auto compare = [&](int one, int other) {
    const IdealSums& a = sums(one);
    const IdealSums& b = sums(other);
    if (a.device_ns != b.device_ns) return a.device_ns < b.device_ns;
    if (a.groups != b.groups) return a.groups < b.groups;
    return std::lexicographical_compare(members(one), members(one) + words_, members(other), members(other) + words_);
  };
  std::ranges::sort(order, compare);
  order.erase(std::unique(order.begin(), order.end(),
                          [&](int one, int other) { return std::equal(members(one), members(one) + words_, members(other)); }),
              order.end());
  std::vector<std::uint64_t> bits;
  std::vector<IdealSums> sums_in_order;
  bits.reserve(order.size() * stride_);
  for (const int ideal : order) {
    bits.insert(bits.end(), members(ideal), members(ideal) + stride_);
    sums_in_order.push_back(sums(ideal));
  }
  bits_ = std::move(bits);
  sums_ = std::move(sums_in_order);
}

}  // namespace mptune::planner
