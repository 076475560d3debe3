#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/emulation/machine/driver_call.h"
#include "tests/emulation/machine/parts.h"
#include "tests/emulation/machine/stream.h"

using namespace emulation;

namespace {

/// A resource's hidden bytes say where its multiprocessors begin.
CUdevResource resource_of(const SmRange& sms) {
  CUdevResource resource{};
  resource.type = CU_DEV_RESOURCE_TYPE_SM;
  resource.sm.smCount = static_cast<unsigned>(sms.count);
  resource.sm.minSmPartitionSize = kLeastSmsOfPart;
  resource.sm.smCoscheduledAlignment = kSmsOfPartAreMultipleOf;
  std::memcpy(resource._internal_padding, &sms, sizeof sms);
  return resource;
}

SmRange range_of(const CUdevResource& resource) {
  SmRange sms;
  std::memcpy(&sms, resource._internal_padding, sizeof sms);
  return sms;
}

Context* part_of(CUgreenCtx handle) {
  return reinterpret_cast<Context*>(handle);
}

CUresult give_resource(const DriverCall& call, const Context* context, CUdevResource* resource, CUdevResourceType type) {
  if (context == nullptr) return call.end(kInvalidContext);
  if (type != CU_DEV_RESOURCE_TYPE_SM) return call.end(kInvalidResourceType);
  *resource = resource_of(context->sms);
  return call.end(kSuccess);
}

}  // namespace

EMULATED_DRIVER_FUNCTION cuDeviceGetDevResource(CUdevice gpu, CUdevResource* resource, CUdevResourceType type) {
  EMULATED_DRIVER_CALL(cuDeviceGetDevResource);
  return is_gpu(gpu) ? give_resource(call, &primary_context(gpu), resource, type) : call.end(kInvalidDevice);
}

EMULATED_DRIVER_FUNCTION cuCtxGetDevResource(CUcontext context, CUdevResource* resource, CUdevResourceType type) {
  EMULATED_DRIVER_CALL(cuCtxGetDevResource);
  return give_resource(call, reinterpret_cast<const Context*>(context), resource, type);
}

EMULATED_DRIVER_FUNCTION cuGreenCtxGetDevResource(CUgreenCtx part, CUdevResource* resource, CUdevResourceType type) {
  EMULATED_DRIVER_CALL(cuGreenCtxGetDevResource);
  return give_resource(call, part_of(part), resource, type);
}

EMULATED_DRIVER_FUNCTION cuDevSmResourceSplitByCount(CUdevResource* groups, unsigned* count, const CUdevResource* all, CUdevResource* rest,
                                                     unsigned, unsigned least) {
  EMULATED_DRIVER_CALL(cuDevSmResourceSplitByCount);
  if (count == nullptr || all == nullptr || all->type != CU_DEV_RESOURCE_TYPE_SM) return call.end(kInvalidValue);
  const Division division = divide(range_of(*all), static_cast<int>(least), groups == nullptr ? 0 : static_cast<int>(*count));
  *count = static_cast<unsigned>(division.groups.size());
  if (groups != nullptr) std::transform(division.groups.begin(), division.groups.end(), groups, resource_of);
  if (rest != nullptr) *rest = resource_of(division.rest);
  return call.end(division.groups.empty() ? kInvalidValue : kSuccess);
}

EMULATED_DRIVER_FUNCTION cuDevResourceGenerateDesc(CUdevResourceDesc* made, CUdevResource* resources, unsigned count) {
  EMULATED_DRIVER_CALL(cuDevResourceGenerateDesc);
  if (count == 0) return call.end(kInvalidValue);
  SmRange sms = range_of(resources[0]);
  for (unsigned i = 1; i < count; ++i) {
    const SmRange next = range_of(resources[i]);
    if (next.first != sms.first + sms.count) return call.end(kInvalidValue);
    sms.count += next.count;
  }
  *made = reinterpret_cast<CUdevResourceDesc>(new SmRange(sms));
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuGreenCtxCreate(CUgreenCtx* made, CUdevResourceDesc description, CUdevice gpu, unsigned flags) {
  EMULATED_DRIVER_CALL(cuGreenCtxCreate);
  if (!is_gpu(gpu)) return call.end(kInvalidDevice);
  if (description == nullptr || (flags & CU_GREEN_CTX_DEFAULT_STREAM) == 0) return call.end(kInvalidValue);
  activate_primary(gpu);
  *made = reinterpret_cast<CUgreenCtx>(make_part(gpu, *reinterpret_cast<const SmRange*>(description)));
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuGreenCtxDestroy(CUgreenCtx part) {
  EMULATED_DRIVER_CALL(cuGreenCtxDestroy);
  return call.end(part == nullptr ? kInvalidContext : wait_for_context(*part_of(part)));
}

EMULATED_DRIVER_FUNCTION cuCtxFromGreenCtx(CUcontext* context, CUgreenCtx part) {
  EMULATED_DRIVER_CALL(cuCtxFromGreenCtx);
  if (part == nullptr) return call.end(kInvalidContext);
  *context = reinterpret_cast<CUcontext>(part);
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuGreenCtxStreamCreate(CUstream* made, CUgreenCtx part, unsigned flags, int priority) {
  EMULATED_DRIVER_CALL(cuGreenCtxStreamCreate);
  if (part == nullptr) return call.end(kInvalidContext);
  if (flags != CU_STREAM_NON_BLOCKING) return call.end(kInvalidValue);
  *made = reinterpret_cast<CUstream>(make_stream(*part_of(part), {false, priority}));
  return call.end(kSuccess);
}

EMULATED_DRIVER_FUNCTION cuStreamGetGreenCtx(CUstream handle, CUgreenCtx* part) {
  EMULATED_DRIVER_CALL(cuStreamGetGreenCtx);
  Stream* stream = stream_of(handle);
  if (stream == nullptr) return call.end(kInvalidHandle);
  const bool whole = stream->context == &primary_context(stream->gpu);
  *part = whole ? nullptr : reinterpret_cast<CUgreenCtx>(stream->context);
  return call.end(kSuccess);
}
