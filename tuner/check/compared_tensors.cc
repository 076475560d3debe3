#include "tuner/check/compared_tensors.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>

namespace mptune::tuner {
namespace {

constexpr double kTiny = 1e-30;  // makes a tensor differ from one that is all zeros

double largest_of(const at::Tensor& tensor) {
  return tensor.numel() == 0 ? 0 : tensor.abs().max().item<double>();
}

}  // namespace

double relative_difference(const at::Tensor& ours, const at::Tensor& theirs, double least_scale) {
  if (!ours.defined() && !theirs.defined()) return 0;
  if (!ours.defined()) return relative_difference(at::zeros_like(theirs), theirs, least_scale);
  if (!theirs.defined()) return relative_difference(ours, at::zeros_like(ours), least_scale);
  if (ours.sizes() != theirs.sizes() || ours.scalar_type() != theirs.scalar_type()) return std::numeric_limits<double>::infinity();
  if (ours.equal(theirs)) return 0;
  if (ours.is_complex()) return relative_difference(at::view_as_real(ours.detach()), at::view_as_real(theirs.detach()), least_scale);
  const at::Tensor a = ours.detach().to(at::kDouble), b = theirs.detach().to(at::kDouble);
  const at::Tensor same = a.eq(b).logical_or(a.isnan().logical_and(b.isnan()));
  const at::Tensor difference = (a - b).abs().masked_fill(same, 0);
  if (!difference.isfinite().all().item<bool>()) return std::numeric_limits<double>::infinity();
  return largest_of(difference) / std::max({largest_of(b.masked_fill(b.isfinite().logical_not(), 0)), least_scale, kTiny});
}

ThreadCount::ThreadCount(int threads) : before_(at::get_num_threads()) {
  at::set_num_threads(threads);
}

ThreadCount::~ThreadCount() {
  at::set_num_threads(before_);
}

void ComparedTensors::add(const CheckDifference& where, const at::Tensor& ours, const at::Tensor& theirs, double least_scale) {
  const double relative = relative_difference(ours, theirs, least_scale);
  ++part_.tensors;
  if (relative == 0) ++part_.bit_equal;
  if (relative > part_.largest) {
    part_.largest = relative;
    part_.largest_at = where.what + (where.layer_name.empty() || !where.is_output ? "" : " of " + where.layer_name);
  }
  if (relative > part_.tolerance && !part_.only_measures && !part_.difference) {
    part_.difference = where;
    part_.difference->relative = relative;
  }
}

}  // namespace mptune::tuner
