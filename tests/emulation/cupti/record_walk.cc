#include "tests/emulation/cupti/record_walk.h"

namespace emulation::cupti {

std::size_t record_size(std::uint32_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_DRIVER:
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_INTERNAL_LAUNCH_API:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_DEVICE:
      return sizeof(CUpti_ActivityDevice5);
    case CUPTI_ACTIVITY_KIND_CONTEXT:
      return sizeof(CUpti_ActivityContext3);
    case CUPTI_ACTIVITY_KIND_STREAM:
      return sizeof(CUpti_ActivityStream);
    case CUPTI_ACTIVITY_KIND_NAME:
      return sizeof(CUpti_ActivityName);
    case CUPTI_ACTIVITY_KIND_MARKER:
      return sizeof(CUpti_ActivityMarker2);
    case CUPTI_ACTIVITY_KIND_MARKER_DATA:
      return sizeof(CUpti_ActivityMarkerData2);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return sizeof(CUpti_ActivityOverhead3);
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      return sizeof(CUpti_ActivityCudaEvent2);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sizeof(CUpti_ActivitySynchronization2);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_CDP_KERNEL:
      return sizeof(CUpti_ActivityCdpKernel);
    case CUPTI_ACTIVITY_KIND_PREEMPTION:
      return sizeof(CUpti_ActivityPreemption);
    case CUPTI_ACTIVITY_KIND_ENVIRONMENT:
      return sizeof(CUpti_ActivityEnvironment);
    case CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER:
      return sizeof(CUpti_ActivityUnifiedMemoryCounter3);
    case CUPTI_ACTIVITY_KIND_FUNCTION:
      return sizeof(CUpti_ActivityFunction);
    case CUPTI_ACTIVITY_KIND_MODULE:
      return sizeof(CUpti_ActivityModule);
    case CUPTI_ACTIVITY_KIND_DEVICE_ATTRIBUTE:
      return sizeof(CUpti_ActivityDeviceAttribute);
    case CUPTI_ACTIVITY_KIND_OPENACC_DATA:
      return sizeof(CUpti_ActivityOpenAccData);
    case CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH:
      return sizeof(CUpti_ActivityOpenAccLaunch);
    case CUPTI_ACTIVITY_KIND_OPENACC_OTHER:
      return sizeof(CUpti_ActivityOpenAccOther);
    case CUPTI_ACTIVITY_KIND_OPENMP:
      return sizeof(CUpti_ActivityOpenMp);
    case CUPTI_ACTIVITY_KIND_NVLINK:
      return sizeof(CUpti_ActivityNvLink4);
    case CUPTI_ACTIVITY_KIND_PCIE:
      return sizeof(CUpti_ActivityPcie);
    case CUPTI_ACTIVITY_KIND_MEMORY:
      return sizeof(CUpti_ActivityMemory);
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      return sizeof(CUpti_ActivityMemory4);
    case CUPTI_ACTIVITY_KIND_MEMORY_POOL:
      return sizeof(CUpti_ActivityMemoryPool3);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return sizeof(CUpti_ActivityGraphTrace2);
    case CUPTI_ACTIVITY_KIND_DEVICE_GRAPH_TRACE:
      return sizeof(CUpti_ActivityDeviceGraphTrace);
    case CUPTI_ACTIVITY_KIND_JIT:
      return sizeof(CUpti_ActivityJit2);
    case CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS:
      return sizeof(CUpti_ActivityMemDecompress);
    case CUPTI_ACTIVITY_KIND_CONFIDENTIAL_COMPUTE_ROTATION:
      return sizeof(CUpti_ActivityConfidentialComputeRotation);
    default:
      return 0;
  }
}

CUptiResult next_record(std::uint8_t* buffer, std::size_t valid, CUpti_Activity*& record) {
  auto* const current = reinterpret_cast<std::uint8_t*>(record);
  std::uint8_t* const next = current == nullptr ? buffer : current + record_size(record->kind);
  const auto left = static_cast<std::size_t>(buffer + valid - next);
  if (next >= buffer + valid || left < sizeof(CUpti_Activity)) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  auto* const found = reinterpret_cast<CUpti_Activity*>(next);
  const std::size_t size = record_size(found->kind);
  if (size == 0) return CUPTI_ERROR_INVALID_KIND;
  if (size > left) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  record = found;
  return CUPTI_SUCCESS;
}

}  // namespace emulation::cupti
