#include "profiler/trace/collect/nvtx_range.h"

#include <nvtx3/nvToolsExt.h>

namespace mptune::profiler {

namespace {
nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t handle = nvtxDomainCreateA("mptune");
  return handle;
}
}  // namespace

NvtxRange::NvtxRange(const char* name, std::int64_t payload) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  attributes.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  attributes.payload.llValue = payload;
  nvtxDomainRangePushEx(domain(), &attributes);
}

NvtxRange::~NvtxRange() {
  nvtxDomainRangePop(domain());
}

}  // namespace mptune::profiler
