#include "planner/search/bounds/cuts_rater.h"

#include <algorithm>
#include <map>

#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

double high_power(double value) {
  for (int doubling = 0; doubling < 5; ++doubling) value *= value;
  return value;
}

}  // namespace

CutsRater::CutsRater(const std::vector<int>& devices, const FamilyWork& work, bool splits, double evenness)
    : devices_(devices), work_(work), splits_(splits) {
  std::map<int, std::size_t> place;
  for (std::size_t s = 0; s < devices.size(); ++s) {
    const auto [known, is_new] = place.emplace(devices[s], on_.size());
    if (is_new) on_.emplace_back();
    on_[known->second].push_back(s);
  }
  uneven_ = evenness * static_cast<double>(devices.size()) / static_cast<double>(on_.size());
}

std::size_t CutsRater::begin(const std::vector<int>& cuts, std::size_t stage) const {
  return stage == 0 ? 0 : stage > cuts.size() ? work_.all.size() - 1 : as_index(cuts[stage - 1]);
}

void CutsRater::set_copies(const std::vector<int>& cuts) {
  const std::size_t stages = devices_.size();
  for (std::vector<double>* sums : {&send_, &send_in_, &out_, &in_, &in_out_}) sums->assign(stages + 1, 0.0);
  for (std::size_t s = 1; s < stages; ++s) {
    if (receives(s)) send_[s] = work_.send[begin(cuts, s)];
    if (receives(s)) send_in_[s] = work_.send_in[begin(cuts, s)];
  }
  for (std::size_t s = 0; s < stages; ++s) {
    out_[s + 1] = out_[s] + work_.action + send_[s + 1];
    in_out_[s + 1] = in_out_[s] + work_.action + send_in_[s + 1];
  }
  for (std::size_t s = stages; s-- > 0;) in_[s] = in_out_[stages] - in_out_[s] - work_.action;
}

CutsRater::Rating CutsRater::rate(const std::vector<int>& cuts) {
  set_copies(cuts);
  Rating rating;
  for (std::size_t device = 0; device < on_.size(); ++device) {
    ranges_.clear();
    for (const std::size_t s : on_[device]) ranges_.push_back({begin(cuts, s), begin(cuts, s + 1)});
    const Rating own = of_device(device, ranges_);
    rating.longest_ns = std::max(rating.longest_ns, own.longest_ns);
    rating.sum += own.sum;
  }
  return rating;
}

CutsRater::Rating CutsRater::of_device(std::size_t device, const std::vector<Range>& stages) const {
  const std::vector<std::size_t>& on = on_[device];
  Rating rating;
  const double scale = 1 / scale_ns_;
  const auto add = [&](double ns) {
    rating.longest_ns = std::max(rating.longest_ns, ns);
    rating.sum += high_power(ns * scale);
  };
  double own = 0;
  for (std::size_t k = on.size(); k-- > 0;) {
    const std::size_t s = on[k];
    const auto [first, last] = stages[k];
    const double all = work_.all[last] - work_.all[first];
    own += 2 * work_.action * work_.microbatches + all + sending_ns(s);
    add(work_.out[first] + out_[s] + own + (splits_ ? 0 : work_.in[first] + in_out_[s]));
    add(uneven_ * all);
  }
  own = work_.out.back() + out_.back() + work_.in.back();
  for (std::size_t k = 0; k < on.size(); ++k) {
    const std::size_t s = on[k];
    const auto [first, last] = stages[k];
    own += work_.action * work_.microbatches + work_.back[last] - work_.back[first];
    if (work_.sender_copies) own += work_.microbatches * send_in_[s];
    add(own + in_[s] - work_.in[last]);
  }
  return rating;
}

// Returns the time for all micro-batches, where the device makes these copies itself.
double CutsRater::sending_ns(std::size_t s) const {
  return work_.sender_copies ? work_.microbatches * (send_[s + 1] + send_in_[s]) : 0;
}

}  // namespace mptune::planner
