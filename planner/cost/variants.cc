#include "planner/cost/variants.h"

#include <optional>

#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

// Index of the class with the device's costs in exactly this variant.
std::optional<int> measured_class(const Profile& profile, const ProfileDevice& device, const ExecutionVariant& variant) {
  if (device.device_class < 0 || as_index(device.device_class) >= profile.classes.size()) return std::nullopt;
  const DeviceClass& named = profile.classes[as_index(device.device_class)];
  const int base = named.variant_of < 0 ? device.device_class : named.variant_of;
  for (std::size_t c = 0; c < profile.classes.size(); ++c) {
    const bool of_device = static_cast<int>(c) == base || profile.classes[c].variant_of == base;
    if (of_device && profile.classes[c].variant == variant) return static_cast<int>(c);
  }
  return std::nullopt;
}

std::optional<int> class_in(const Profile& profile, const ProfileDevice& device, const ExecutionVariant& variant) {
  if (const auto found = measured_class(profile, device, variant)) return found;
  return variant.replaces_slow_kernels ? measured_class(profile, device, {variant.memory_format, false}) : std::nullopt;
}

}  // namespace

ExecutionVariant variant_of(const ExecutionOptions& options) {
  return {options.memory_format, options.replace_slow_kernels};
}

bool has_variant(const Profile& profile, const ExecutionVariant& variant) {
  for (const ProfileDevice& device : profile.devices)
    if (!class_in(profile, device, variant)) return false;
  return true;
}

Profile in_variant(Profile profile, const ExecutionVariant& variant) {
  for (ProfileDevice& device : profile.devices) {
    const auto found = class_in(profile, device, variant);
    if (!found)
      throw Error(std::string("the profile has no costs of ") + device.name + " in memory format " + name_of(variant.memory_format),
                  profile.model, std::string("profile the model again with --memory-format ") + name_of(variant.memory_format));
    device.device_class = *found;
  }
  return profile;
}

}  // namespace mptune::planner
