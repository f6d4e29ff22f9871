#include "base/crc32c.h"

#include <boost/crc.hpp>

namespace weft {

uint32_t Crc32c(absl::string_view data) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(data.data(), data.size());
  return crc.checksum();
}

}  // namespace weft
