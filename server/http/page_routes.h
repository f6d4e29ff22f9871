// The page and its parts, from the executable itself: no file is read at run time.
#pragma once

#include "server/http/router.h"

namespace weft {

// Adds "/", "/findings/{id}" (the same page, which shows that finding first) and "/assets/…". Answers carry
// an ETag and no-cache, so that a browser asks each time and a new server's page is never mixed with an old
// one's script.
void AddPageRoutes(Router& router);

}  // namespace weft
