// Puts a board's beliefs into words and evidence. Any thread that may read the board.
#pragma once

#include <string>
#include <vector>

#include "fleet/finding.h"
#include "server/detect/board.h"

namespace weft {

// All findings of one board, in no particular order. `channel`: as in Finding::part for NICs, else empty.
std::vector<Finding> FindingsOf(const Board& board, const std::string& probe, const std::string& channel);

// Where each node of the board stands.
std::vector<NodeLevel> LevelsOf(const Board& board, const std::string& probe);

}  // namespace weft
