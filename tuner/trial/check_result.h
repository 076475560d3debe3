#pragma once

#include <optional>
#include <string>
#include <vector>

namespace mptune::tuner {

/// The first difference between two steps of a model. Outputs come first, in the order of layers, then the loss, then gradients from the
/// last layer back, then buffers.
struct CheckDifference {
  std::string what = {};        ///< for people: "output", "loss", "gradient of fc.weight", "buffer bn1.running_mean"
  int layer = -1;               ///< -1: no single layer
  std::string layer_name = {};  ///< "" for none
  std::string operation = {};   ///< in an exported program: "aten.rand_like in drop (net.py:7, x + torch.rand_like(x))"; "" where not known
  double relative = 0;          ///< largest difference over the tensor's largest value; infinite where shapes differ or one is not finite
  bool is_output = false;       ///< a layer's output, not the loss, a gradient or a buffer
  bool operator==(const CheckDifference&) const = default;
};

/// One comparison of a check.
struct CheckPart {
  std::string name = {};      ///< "reference", "again", "pieces", "microbatches", "plan", "precision"
  std::string compared = {};  ///< for people: what is compared with what
  std::string left_out = {};  ///< why it was not made, "" where it was
  bool no_time = false;       ///< it was left out because the time for the check was over
  int tensors = 0;
  int bit_equal = 0;            ///< how many of them are equal bit by bit
  double largest = 0;           ///< the largest relative difference
  std::string largest_at = {};  ///< the tensor with the largest difference, "" where all are equal
  double tolerance = 0;
  bool only_measures = false;                      ///< it says how large differences are, and allows any: `tolerance` is unused
  std::optional<CheckDifference> difference = {};  ///< nothing where the part agrees
  std::string remedy = {};                         ///< what to do about a difference
  bool operator==(const CheckPart&) const = default;
};

/// What a check of one model found.
struct CheckResult {
  int samples = 0;
  std::vector<int> microbatch_sizes;
  std::vector<CheckPart> parts;
  bool operator==(const CheckResult&) const = default;
};

/// Returns the names of the parts that there was no time for.
[[nodiscard]] std::vector<std::string> parts_without_time(const CheckResult& result);

/// Returns the first part that differs, or null where the model agrees.
[[nodiscard]] const CheckPart* first_failure(const CheckResult& result);

/// Describes the difference in one clause: "the output of layer drop differs by 0.31 of its largest value: aten.rand_like in drop
/// (net.py:7, ...)". Requires: the part differs.
[[nodiscard]] std::string difference_text(const CheckPart& part);

}  // namespace mptune::tuner
