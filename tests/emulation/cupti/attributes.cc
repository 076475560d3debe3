#include "tests/emulation/cupti/attributes.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "tests/emulation/cupti/buffers.h"

namespace emulation::cupti {

namespace {

struct Attribute {
  CUpti_ActivityAttribute name;
  std::size_t bytes;
  std::size_t value;
};

// With the defaults of the documentation.
std::array<Attribute, 11> known_attributes{{{CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, sizeof(std::size_t), 3'200'000},
                                            {CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE_CDP, sizeof(std::size_t), 8'388'608},
                                            {CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT, sizeof(std::size_t), 250},
                                            {CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_POOL_SIZE, sizeof(std::size_t), 25'000},
                                            {CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_POOL_LIMIT, sizeof(std::size_t), 250},
                                            {CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, sizeof(std::uint8_t), 0},
                                            {CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE, sizeof(std::size_t), 3},
                                            {CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_PRE_ALLOCATE_VALUE, sizeof(std::size_t), 3},
                                            {CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED, sizeof(std::uint8_t), 0},
                                            {CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, sizeof(std::uint8_t), 1},
                                            {CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE_DEVICE_GRAPHS, sizeof(std::size_t), 16'777'216}}};

std::mutex& attribute_mutex() {
  static std::mutex& object = *new std::mutex;
  return object;
}

Attribute* find(CUpti_ActivityAttribute name) {
  for (Attribute& attribute : known_attributes)
    if (attribute.name == name) return &attribute;
  return nullptr;
}

CUptiResult check(const Attribute* attribute, std::size_t* size, const void* value) {
  if (attribute == nullptr || size == nullptr || value == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  const bool fits = *size >= attribute->bytes;
  *size = attribute->bytes;
  return fits ? CUPTI_SUCCESS : CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
}

}  // namespace

// The lower bytes of a number come first.
CUptiResult read_attribute(CUpti_ActivityAttribute name, std::size_t* size, void* value) {
  const std::lock_guard lock(attribute_mutex());
  const Attribute* attribute = find(name);
  const CUptiResult result = check(attribute, size, value);
  if (result == CUPTI_SUCCESS) std::memcpy(value, &attribute->value, attribute->bytes);
  return result;
}

CUptiResult write_attribute(CUpti_ActivityAttribute name, std::size_t* size, const void* value) {
  const std::lock_guard lock(attribute_mutex());
  Attribute* attribute = find(name);
  const CUptiResult result = check(attribute, size, value);
  if (result != CUPTI_SUCCESS) return result;
  std::memcpy(&attribute->value, value, attribute->bytes);
  if (name == CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER) buffers().set_per_thread(attribute->value != 0);
  return CUPTI_SUCCESS;
}

}  // namespace emulation::cupti
