"""Delta's table features, one file each, and what they decide (PROTOCOL.md, "Table Features").

A new feature is its own file, its line in `FEATURES`, and its test.
"""

from __future__ import annotations

from adelta.kernel.table_features._change import (
    check_change,
    check_replacement,
    check_succession,
    completed_metadata,
    outlasting_properties,
    outlasting_protocol,
)
from adelta.kernel.table_features._commit import (
    MAINTAINED_DOMAINS,
    maintained_domains,
    prepared,
    rebased,
)
from adelta.kernel.table_features._feature import FeatureKind, TableFeature
from adelta.kernel.table_features._management import (
    CATALOG,
    KINDS,
    MANAGED,
    Management,
    ManagementKind,
    management_by,
)
from adelta.kernel.table_features._new_table import (
    named_feature,
    protocol_for_new_table,
    protocol_of,
    settable_properties,
    stored_properties,
    validate_properties,
    wanted_features,
)
from adelta.kernel.table_features._ownership import with_owner_of, without_owner
from adelta.kernel.table_features._registry import (
    FEATURES,
    check_readable,
    check_writable,
    find_feature,
    implied_features,
    is_active,
    is_supported,
    supported_features,
    supported_names,
)
from adelta.kernel.table_features._removal import Removal, unset, with_properties
from adelta.kernel.table_features._upgrade import (
    dependants,
    protocol_with,
    protocol_without,
    raised_protocol,
    upgraded_protocol,
)
from adelta.kernel.table_features.allow_column_defaults import ALLOW_COLUMN_DEFAULTS, DEFAULT_KEY
from adelta.kernel.table_features.append_only import APPEND_ONLY
from adelta.kernel.table_features.catalog_managed import CATALOG_MANAGED
from adelta.kernel.table_features.change_data_feed import (
    CHANGE_DATA_DIRECTORY,
    CHANGE_DATA_FEED,
    CHANGE_TYPE,
)
from adelta.kernel.table_features.checkpoint_protection import (
    CHECKPOINT_PROTECTION,
    CHECKPOINT_PROTECTION_BEFORE,
)
from adelta.kernel.table_features.clustering import (
    CLUSTERING,
    CLUSTERING_DOMAIN,
    clustering_columns,
    clustering_configuration,
    physical_clustering_columns,
)
from adelta.kernel.table_features.column_mapping import (
    COLUMN_MAPPING,
    COLUMN_MAPPING_MAX_ID,
    COLUMN_MAPPING_MODE,
)
from adelta.kernel.table_features.coordinated_commits import COORDINATED_COMMITS
from adelta.kernel.table_features.deletion_vectors import DELETION_VECTORS
from adelta.kernel.table_features.domain_metadata import DOMAIN_METADATA
from adelta.kernel.table_features.generated_columns import GENERATED_COLUMNS
from adelta.kernel.table_features.iceberg_compat import (
    iceberg_compat_version,
    switches_row_tracking_on,
)
from adelta.kernel.table_features.identity_columns import (
    IDENTITY_ADVANCED,
    IDENTITY_COLUMNS,
    IDENTITY_KEYS,
    IdentityColumn,
    check_identity_columns,
    identities_of,
    with_high_water_marks,
)
from adelta.kernel.table_features.in_commit_timestamp import (
    IN_COMMIT_TIMESTAMP,
    IN_COMMIT_TIMESTAMP_ENABLEMENT_TIMESTAMP,
    IN_COMMIT_TIMESTAMP_ENABLEMENT_VERSION,
    IN_COMMIT_TIMESTAMPS_ENABLED,
    in_commit_timestamp_enablement,
)
from adelta.kernel.table_features.managed_commit import MANAGED_COMMIT
from adelta.kernel.table_features.materialize_partition_columns import (
    MATERIALIZE_PARTITION_COLUMNS,
    PARTITION_COLUMNS_TO_PARQUET,
)
from adelta.kernel.table_features.row_tracking import (
    ROW_TRACKING,
    ROW_TRACKING_BACKFILL,
    ROW_TRACKING_DOMAIN,
    ROW_TRACKING_ENABLED,
    high_water_mark,
    row_id_columns,
)
from adelta.kernel.table_features.type_widening import TYPE_WIDENING, TYPE_WIDENING_ENABLED
from adelta.kernel.table_features.v2_checkpoint import V2_CHECKPOINT

__all__ = [
    "ALLOW_COLUMN_DEFAULTS",
    "APPEND_ONLY",
    "CATALOG",
    "CATALOG_MANAGED",
    "CHANGE_DATA_DIRECTORY",
    "CHANGE_DATA_FEED",
    "CHANGE_TYPE",
    "CHECKPOINT_PROTECTION",
    "CHECKPOINT_PROTECTION_BEFORE",
    "CLUSTERING",
    "CLUSTERING_DOMAIN",
    "COLUMN_MAPPING",
    "COLUMN_MAPPING_MAX_ID",
    "COLUMN_MAPPING_MODE",
    "COORDINATED_COMMITS",
    "DEFAULT_KEY",
    "DELETION_VECTORS",
    "DOMAIN_METADATA",
    "FEATURES",
    "GENERATED_COLUMNS",
    "IDENTITY_ADVANCED",
    "IDENTITY_COLUMNS",
    "IDENTITY_KEYS",
    "IN_COMMIT_TIMESTAMP",
    "IN_COMMIT_TIMESTAMPS_ENABLED",
    "IN_COMMIT_TIMESTAMP_ENABLEMENT_TIMESTAMP",
    "IN_COMMIT_TIMESTAMP_ENABLEMENT_VERSION",
    "KINDS",
    "MAINTAINED_DOMAINS",
    "MANAGED",
    "MANAGED_COMMIT",
    "MATERIALIZE_PARTITION_COLUMNS",
    "PARTITION_COLUMNS_TO_PARQUET",
    "ROW_TRACKING",
    "ROW_TRACKING_BACKFILL",
    "ROW_TRACKING_DOMAIN",
    "ROW_TRACKING_ENABLED",
    "TYPE_WIDENING",
    "TYPE_WIDENING_ENABLED",
    "V2_CHECKPOINT",
    "FeatureKind",
    "IdentityColumn",
    "Management",
    "ManagementKind",
    "Removal",
    "TableFeature",
    "check_change",
    "check_identity_columns",
    "check_readable",
    "check_replacement",
    "check_succession",
    "check_writable",
    "clustering_columns",
    "clustering_configuration",
    "completed_metadata",
    "dependants",
    "find_feature",
    "high_water_mark",
    "iceberg_compat_version",
    "identities_of",
    "implied_features",
    "in_commit_timestamp_enablement",
    "is_active",
    "is_supported",
    "maintained_domains",
    "management_by",
    "named_feature",
    "outlasting_properties",
    "outlasting_protocol",
    "physical_clustering_columns",
    "prepared",
    "protocol_for_new_table",
    "protocol_of",
    "protocol_with",
    "protocol_without",
    "raised_protocol",
    "rebased",
    "row_id_columns",
    "settable_properties",
    "stored_properties",
    "supported_features",
    "supported_names",
    "switches_row_tracking_on",
    "unset",
    "upgraded_protocol",
    "validate_properties",
    "wanted_features",
    "with_high_water_marks",
    "with_owner_of",
    "with_properties",
    "without_owner",
]
