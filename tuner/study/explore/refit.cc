#include "tuner/study/explore/refit.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "planner/cost/variants.h"
#include "profiler/base/error.h"

namespace mptune::tuner {
namespace {

constexpr std::size_t kFactors = 3;
constexpr std::size_t kLeastTrials = 3;
constexpr std::size_t kMostTrials = 24;
constexpr int kIterations = 4;
constexpr double kStep = 0.05;                                  // of a logarithm, for the derivative
constexpr double kMostChange = 0.5;                             // of a logarithm, per iteration
constexpr double kNoise = 0.02;                                 // sigma of the logarithm of a measured step over a perfect prediction
constexpr double kHuber = 2 * kNoise;                           // larger residuals count less
constexpr std::array<double, kFactors> kSigmas{0.1, 0.7, 0.7};  // of the factors' logarithms before there are trials

using Vector = std::array<double, kFactors>;
using Matrix = std::array<Vector, kFactors>;

SimulatorFactors factors_of(const Vector& logarithms) {
  return {std::exp(logarithms[0]), std::exp(logarithms[1]), std::exp(logarithms[2])};
}

void multiply(Samples& samples, double factor) {
  for (Sample& sample : samples.values) sample.value *= factor;
}

struct Observation {
  const Plan* plan = nullptr;
  double log_measured = 0;
  double log_predicted = 0;  // with the current factors
  Vector slope{};            // of log_predicted by each logarithm
  double weight = 1;

  [[nodiscard]] double residual() const { return log_measured - log_predicted; }
};

bool can_predict(const Profile& profile, const Plan& plan) {
  const auto known = [&](const std::string& device) {
    return std::ranges::find(profile.devices, device, &ProfileDevice::name) != profile.devices.end();
  };
  return std::ranges::all_of(plan.devices, known) && planner::has_costs_of(profile, plan);
}

std::vector<Observation> observations(const Profile& profile, const std::vector<Trial>& trials) {
  std::vector<Observation> list;
  std::set<std::string> seen;
  for (auto trial = trials.rbegin(); trial != trials.rend() && list.size() < kMostTrials; ++trial) {
    const auto* measured = std::get_if<Measured>(&trial->outcome);
    if (measured == nullptr || measured->step_s.empty() || !can_predict(profile, trial->plan)) continue;
    if (seen.insert(trial->plan_key).second) list.push_back({.plan = &trial->plan, .log_measured = std::log(median(measured->step_s))});
  }
  return list;
}

/// Returns the logarithm of the predicted step of every plan.
std::vector<double> predictions(const Profile& profile, const std::vector<Observation>& list, const Vector& logarithms) {
  const Profile changed = with_factors(profile, factors_of(logarithms));
  std::vector<double> predicted;
  for (const Observation& one : list) predicted.push_back(std::log(predict(*one.plan, CostModel(changed, *one.plan)).step_s));
  return predicted;
}

void linearise(const Profile& profile, std::vector<Observation>& list, const Vector& logarithms) {
  const std::vector<double> here = predictions(profile, list, logarithms);
  for (std::size_t i = 0; i < list.size(); ++i) {
    list[i].log_predicted = here[i];
    list[i].weight = std::min(1.0, kHuber / std::max(1e-12, std::abs(list[i].residual())));
  }
  for (std::size_t k = 0; k < kFactors; ++k) {
    Vector moved = logarithms;
    moved[k] += kStep;
    const std::vector<double> there = predictions(profile, list, moved);
    for (std::size_t i = 0; i < list.size(); ++i) list[i].slope[k] = (there[i] - here[i]) / kStep;
  }
}

/// Returns the sum of weighted slope products and of the precision of what is known about the factors beforehand.
Matrix normal_matrix(const std::vector<Observation>& list) {
  Matrix matrix{};
  for (std::size_t k = 0; k < kFactors; ++k) matrix[k][k] = kNoise * kNoise / (kSigmas[k] * kSigmas[k]);
  for (const Observation& one : list)
    for (std::size_t j = 0; j < kFactors; ++j)
      for (std::size_t k = 0; k < kFactors; ++k) matrix[j][k] += one.weight * one.slope[j] * one.slope[k];
  return matrix;
}

/// Solves matrix * x = right by elimination; the matrix is positive definite.
Vector solved(Matrix matrix, Vector right) {
  for (std::size_t k = 0; k < kFactors; ++k) {
    for (std::size_t row = k + 1; row < kFactors; ++row) {
      const double part = matrix[row][k] / matrix[k][k];
      for (std::size_t column = k; column < kFactors; ++column) matrix[row][column] -= part * matrix[k][column];
      right[row] -= part * right[k];
    }
  }
  for (std::size_t k = kFactors; k-- > 0;) {
    for (std::size_t column = k + 1; column < kFactors; ++column) right[k] -= matrix[k][column] * right[column];
    right[k] /= matrix[k][k];
  }
  return right;
}

/// Takes a Gauss-Newton step towards the best logarithms.
void improve(const std::vector<Observation>& list, Vector& logarithms) {
  const Matrix matrix = normal_matrix(list);
  Vector right{};
  for (std::size_t k = 0; k < kFactors; ++k) {
    right[k] = -kNoise * kNoise / (kSigmas[k] * kSigmas[k]) * logarithms[k];
    for (const Observation& one : list) right[k] += one.weight * one.slope[k] * one.residual();
  }
  const Vector change = solved(matrix, right);
  for (std::size_t k = 0; k < kFactors; ++k) logarithms[k] += std::clamp(change[k], -kMostChange, kMostChange);
}

double relative_error(double log_ratio) {
  return std::abs(std::exp(log_ratio) - 1);
}

/// Returns the median error of trials where, for each, the others alone decide the factors: its residual over 1 minus its leverage.
double error_left_out(const std::vector<Observation>& list) {
  const Matrix matrix = normal_matrix(list);
  std::vector<double> errors;
  for (const Observation& one : list) {
    const Vector direction = solved(matrix, one.slope);
    double leverage = 0;
    for (std::size_t k = 0; k < kFactors; ++k) leverage += one.weight * one.slope[k] * direction[k];
    errors.push_back(relative_error(one.residual() / std::max(1e-3, 1 - leverage)));
  }
  return median(errors);
}

}  // namespace

Profile with_factors(Profile profile, const SimulatorFactors& factors) {
  for (DeviceClass& device_class : profile.classes) {
    device_class.action_seconds *= factors.action;
    for (LayerCosts& layer : device_class.layers)
      for (LayerCost& cost : layer.by_samples)
        for (Samples* times :
             {&cost.forward, &cost.backward, &cost.forward_busy, &cost.backward_busy, &cost.backward_input, &cost.backward_weight})
          multiply(*times, factors.compute);
  }
  for (LinkCost& link : profile.links) {
    link.latency_s *= factors.copy;
    link.bytes_per_second /= factors.copy;
    for (LinkPoint& point : link.curve) point.seconds *= factors.copy;
  }
  return profile;
}

std::optional<Refit> refit(const Profile& profile, const std::vector<Trial>& trials) {
  std::vector<Observation> list = observations(profile, trials);
  if (list.size() < kLeastTrials) return std::nullopt;
  Vector logarithms{};
  linearise(profile, list, logarithms);
  std::vector<double> before;
  for (const Observation& one : list) before.push_back(relative_error(one.residual()));
  for (int i = 0; i < kIterations; ++i) {
    improve(list, logarithms);
    linearise(profile, list, logarithms);
  }
  return Refit{.factors = factors_of(logarithms),
               .trials = static_cast<int>(list.size()),
               .error_before = median(before),
               .error_after = error_left_out(list)};
}

}  // namespace mptune::tuner
