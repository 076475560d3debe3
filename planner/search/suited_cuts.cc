#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>

#include "planner/search/stages_bound.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr int kFurthest = 3;                                // layers that cuts move together
constexpr std::int64_t kMostRated = std::int64_t{1} << 23;  // of all cuts that are rated, their stages

// How good cuts are by the paths of stages_bound.h: all count, the long ones far more.
class CutsRater {
 public:
  CutsRater(const std::vector<int>& devices, const FamilyWork& work, bool splits, double evenness)
      : devices_(devices), work_(work), splits_(splits), on_(as_index(*std::ranges::max_element(devices)) + 1), scale_(1) {
    const auto used = static_cast<double>(std::set<int>(devices.begin(), devices.end()).size());
    uneven_ = evenness * static_cast<double>(devices.size()) / used;
  }

  void scale(double ns) { scale_ = ns; }

  struct Rating {
    double longest_ns = 0;
    double sum = 0;  // of high powers of all lengths
  };

  Rating rate(const std::vector<int>& cuts) {
    Rating rating;
    const double through = out_through(cuts);
    add_work(cuts, through, rating);
    add_gradients(cuts, through, rating);
    return rating;
  }

 private:
  [[nodiscard]] std::size_t begin(const std::vector<int>& cuts, std::size_t s) const {
    return s == 0 ? 0 : s > cuts.size() ? work_.all.size() - 1 : as_index(cuts[s - 1]);
  }
  [[nodiscard]] bool receives(std::size_t s) const { return s > 0 && s < devices_.size() && devices_[s] != devices_[s - 1]; }
  [[nodiscard]] double send(const std::vector<int>& cuts, std::size_t s) const { return receives(s) ? work_.send[begin(cuts, s)] : 0; }
  [[nodiscard]] double send_in(const std::vector<int>& cuts, std::size_t s) const {
    return receives(s) ? work_.send_in[begin(cuts, s)] : 0;
  }

  // Forward of a micro-batch through all stages.
  [[nodiscard]] double out_through(const std::vector<int>& cuts) const {
    double ns = work_.out.back();
    for (std::size_t s = 0; s < devices_.size(); ++s) ns += work_.action + send(cuts, s);
    return ns;
  }

  void add_work(const std::vector<int>& cuts, double through, Rating& rating) {
    std::ranges::fill(on_, 0.0);
    double head = through;
    for (std::size_t s = devices_.size(); s-- > 0;) {
      const std::size_t first = begin(cuts, s), last = begin(cuts, s + 1);
      const double all = work_.all[last] - work_.all[first];
      double& own = on_[as_index(devices_[s])];
      own += 2 * work_.action * work_.microbatches + all;
      head -= work_.action + work_.out[last] - work_.out[first];
      add(head + own + (splits_ ? 0 : in_before(cuts, s)), rating);
      add(uneven_ * all, rating);
      head -= send(cuts, s);
    }
  }

  void add_gradients(const std::vector<int>& cuts, double through, Rating& rating) {
    std::ranges::fill(on_, 0.0);
    double behind = work_.in.back();  // actions and copies of the stages behind; layers of all
    for (std::size_t s = 1; s < devices_.size(); ++s) behind += work_.action + send_in(cuts, s);
    for (std::size_t s = 0; s < devices_.size(); ++s) {
      const std::size_t first = begin(cuts, s), last = begin(cuts, s + 1);
      double& own = on_[as_index(devices_[s])];
      own += work_.action * work_.microbatches + work_.back[last] - work_.back[first];
      add(through + behind - work_.in[last] + own, rating);
      behind -= work_.action + send_in(cuts, s + 1);
    }
  }

  // The gradient's way back through the stages before.
  [[nodiscard]] double in_before(const std::vector<int>& cuts, std::size_t s) const {
    double ns = work_.in[begin(cuts, s)];
    for (std::size_t t = 1; t <= s; ++t) ns += work_.action + send_in(cuts, t);
    return ns;
  }

  void add(double ns, Rating& rating) const {
    rating.longest_ns = std::max(rating.longest_ns, ns);
    double power = ns / scale_;
    for (int doubling = 0; doubling < 5; ++doubling) power *= power;
    rating.sum += power;
  }

  const std::vector<int>& devices_;
  const FamilyWork& work_;
  bool splits_;
  double uneven_ = 0;       // times its own work: as long as a path, once a stage has so much more than others
  std::vector<double> on_;  // each device
  double scale_;
};

class Improver {
 public:
  Improver(const std::vector<int>& devices, const FamilyWork& work, bool splits, double evenness, std::vector<int> cuts)
      : rater_(devices, work, splits, evenness), cuts_(std::move(cuts)), left_(kMostRated / std::ssize(devices)) {
    for (std::size_t layer = 1; layer + 1 < work.all.size(); ++layer)
      if (std::isfinite(work.send[layer])) open_.push_back(static_cast<int>(layer));
    for (const int cut : cuts_) places_.push_back(std::ranges::lower_bound(open_, cut) - open_.begin());
    rater_.scale(rater_.rate(cuts_).longest_ns);
    best_ = rater_.rate(cuts_).sum;
  }

  std::vector<int> run() {
    for (bool better = true; better && left_ > 0;) {
      better = false;
      for (std::size_t c = 0; c < cuts_.size(); ++c) better = move_alone(c) || better;
      for (std::size_t c = 0; c + 1 < cuts_.size() && left_ > 0; ++c) better = move_both(c, c + 1) || better;
      for (std::size_t apart = 1; apart < cuts_.size(); ++apart)
        for (std::size_t c = 0; c + apart < cuts_.size() && left_ > 0; ++c) better = shift(c, c + apart) || better;
    }
    return cuts_;
  }

 private:
  using Place = std::ptrdiff_t;  // index into the layers where stages may begin

  bool move_alone(std::size_t c) {
    bool better = false;
    for (Place by = -2 * kFurthest; by <= 2 * kFurthest; ++by) {
      if (by == 0) continue;
      std::vector<Place> moved = places_;
      moved[c] += by;
      better = attempt(std::move(moved), c, c) || better;
    }
    return better;
  }

  bool move_both(std::size_t c, std::size_t d) {
    bool better = false;
    for (Place one = -kFurthest; one <= kFurthest; ++one)
      for (Place other = -kFurthest; other <= kFurthest; ++other) {
        if (one == 0 || other == 0) continue;
        std::vector<Place> moved = places_;
        moved[c] += one;
        moved[d] += other;
        better = attempt(std::move(moved), c, d) || better;
      }
    return better;
  }

  // The stage before these cuts gives layers to the one behind, or gets them; those between keep their number.
  bool shift(std::size_t c, std::size_t d) {
    bool better = false;
    for (Place by = -kFurthest; by <= kFurthest; ++by) {
      if (by == 0) continue;
      std::vector<Place> moved = places_;
      for (std::size_t i = c; i <= d; ++i) moved[i] += by;
      better = attempt(std::move(moved), c, d) || better;
    }
    return better;
  }

  // Places that differ from c to d.
  bool attempt(std::vector<Place> moved, std::size_t c, std::size_t d) {
    if (moved[c] < (c == 0 ? 0 : moved[c - 1] + 1) || moved[d] > (d + 1 == moved.size() ? std::ssize(open_) : moved[d + 1]) - 1)
      return false;
    for (std::size_t i = c; i < d; ++i)
      if (moved[i] >= moved[i + 1]) return false;
    for (std::size_t i = c; i <= d; ++i) cuts_[i] = open_[as_index(moved[i])];
    --left_;
    const double sum = rater_.rate(cuts_).sum;
    if (sum < best_ * (1 - 1e-9)) {
      best_ = sum;
      places_ = std::move(moved);
      return true;
    }
    for (std::size_t i = c; i <= d; ++i) cuts_[i] = open_[as_index(places_[i])];
    return false;
  }

  CutsRater rater_;
  std::vector<int> open_;
  std::vector<int> cuts_;
  std::vector<Place> places_;
  std::int64_t left_;
  double best_ = 0;
};

}  // namespace

std::vector<int> suited_cuts(const std::vector<int>& devices, const FamilyWork& work, bool splits, double evenness, std::vector<int> cuts) {
  return Improver(devices, work, splits, evenness, std::move(cuts)).run();
}

}  // namespace mptune::planner
